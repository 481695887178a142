package page

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/harness"
)

func write(t *testing.T, records []harness.Record) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, Write(&b, "A title <&>", records))
	return b.String()
}

// Every section has its pictures, each picture its table, and no text of a record is
// taken for markup.
func TestPage(t *testing.T) {
	records := synthetic()
	html := write(t, records)
	require.Equal(t, html, write(t, records), "equal records, equal bytes")
	for _, id := range []string{"levers-1", "levers-2", "depth-1", "prompt-1", "limits-1", "history-1", "counters-1", "runs-1", "runs-2", "problems"} {
		require.Contains(t, html, `id="`+id, id)
	}
	require.Equal(t, strings.Count(html, "<figure"), strings.Count(html, "<details>"))
	require.Equal(t, 2*strings.Count(html, "<figure"), strings.Count(html, `role="img"`))
	require.NotContains(t, html, "<b>")
	require.NotContains(t, html, "<8>")
	require.Contains(t, html, "Some Processor &lt;8&gt; &amp; more")
	require.NotContains(t, strings.ToLower(html), "<script")
	require.NotRegexp(t, regexp.MustCompile(`(src|href)="(https?:|//)`), html)
	require.NotContains(t, html, "NaN")
	require.NotContains(t, html, "Inf")
	require.NotContains(t, html, "ZgotmplZ")
	require.Contains(t, html, "the sides generate different texts")
}

// Every picture is well-formed by itself.
func TestPicturesAreWellFormed(t *testing.T) {
	html := write(t, synthetic())
	svgs := regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(html, -1)
	require.Greater(t, len(svgs), 20)
	for _, svg := range svgs {
		d := xml.NewDecoder(strings.NewReader(svg))
		for {
			_, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err, svg)
		}
	}
}

// A page of one record says of each section what is missing.
func TestPageOfLittle(t *testing.T) {
	r := harness.Record{Provenance: harness.Provenance{Date: "2026-11-30T03:00:00Z", Commit: "c", Device: "d"}, Sweep: "s", Op: "o", Sides: []harness.Measured{{Name: "x", Seconds: []float64{1}, Median: 1, Work: harness.Work{Bytes: 1}}}}
	html := write(t, []harness.Record{r})
	for _, s := range []string{"No record compares two sides.", "No scenario was measured at two depths.", "No scenario was measured with two lengths.", "No record has a limit measured beside it.", "No scenario was measured at two dates yet.", "No record has counters.", "1 scenario of 1 device, measured 2026-11-30."} {
		require.Contains(t, html, s)
	}
	require.NotContains(t, html, "<figure")
}

// The newest record of a scenario is the one shown; the older ones are history.
func TestNewestIsShown(t *testing.T) {
	records := synthetic()
	s := levers(harness.Newest(records))
	rows := 0
	for _, f := range s.Figures {
		rows += len(f.Table.Rows)
	}
	require.Equal(t, 10+10, rows)
	h := history(records)
	require.Len(t, h.Figures, 2, "10 levers in charts of 6")
	require.Len(t, h.Figures[0].Table.Rows, 6*3)
	for _, f := range h.Figures {
		require.Contains(t, f.Table.Rows[1][4], " to ")
		require.Contains(t, f.Table.Rows[1][5], " → ")
	}
	for i := range records { // as if measured alone
		records[i].AB, records[i].Lever, records[i].Sides = nil, "", records[i].Sides[:1]
	}
	require.NotEmpty(t, history(records).Figures)
}

// A default setting that is side A of several levers is one series, and one bar.
func TestSharedBaseline(t *testing.T) {
	records := harness.Newest(synthetic())
	s := against(records, depthSection)
	require.NotEmpty(t, s.Figures)
	for _, f := range s.Figures {
		require.LessOrEqual(t, strings.Count(string(f.Legend), "<li>"), mostSeries)
	}
}

func TestAxis(t *testing.T) {
	x := linear(97, 0, 500)
	require.Equal(t, 100.0, x.hi)
	require.Equal(t, []float64{0, 20, 40, 60, 80, 100}, x.ticks(90))
	require.Equal(t, 250.0, x.at(50))
	require.Equal(t, 500.0, x.at(200), "what lies outside is at the edge")
	require.Equal(t, 1.0, linear(0, 0, 1).hi)
	require.Equal(t, 1.0, linear(math.NaN(), 0, 1).hi)
	l := axis{lo: 1, hi: 1000, from: 0, to: 300, log: true}
	require.InDelta(t, 200, l.at(100), 1e-9)
	require.Equal(t, []float64{1, 10, 100, 1000}, l.ticks(90))
	require.Equal(t, []float64{1, 3, 10, 30, 100, 300, 1000}, l.ticks(40))
	narrow := axis{lo: 13, hi: 19, from: 0, to: 300, log: true}
	require.NotEmpty(t, narrow.ticks(40))
}

func TestWrap(t *testing.T) {
	require.Equal(t, []string{"one two", "three"}, wrap("one two three", 8, 2))
	require.Equal(t, []string{"one two…"}, wrap("one two three", 8, 1))
	require.Equal(t, []string{"abcd", "efgh", "i j"}, wrap("abcdefghi j", 4, 3))
	require.Nil(t, wrap("", 4, 3))
}

func TestShort(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.25: "0.25", 9999: "9999", 20000: "20 k", 2.5e6: "2.5 M", 1e9: "1 G", 3e12: "3 T"} {
		require.Equal(t, want, short(v))
	}
}
