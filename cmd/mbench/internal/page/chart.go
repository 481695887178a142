package page

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A chart is drawn twice, for a screen and for a phone: a picture that is only
// scaled down has text that nobody can read. The style sheet shows one of the two,
// and what is not shown is not there for a screen reader either.
const (
	wideWidth   = 900.0
	narrowWidth = 340.0
	fontSize    = 12.5 // of the text in charts, as the style sheet has it
)

// both draws at both widths.
func both(label string, draw func(c *canvas)) template.HTML {
	var b strings.Builder
	for _, v := range []struct {
		class string
		width float64
	}{{"wide", wideWidth}, {"narrow", narrowWidth}} {
		c := &canvas{w: v.width}
		draw(c)
		fmt.Fprintf(&b, `<div class="%s"><svg viewBox="0 0 %s %s" width="%s" height="%s" role="img" aria-label="%s">%s</svg></div>`,
			v.class, num(c.w), num(c.h), num(c.w), num(c.h), html.EscapeString(label), c.b.String())
	}
	return template.HTML(b.String())
}

// canvas is one SVG picture.
type canvas struct {
	b    strings.Builder
	w, h float64
}

func (c *canvas) narrow() bool { return c.w < 500 }

// num prints a coordinate.
func num(v float64) string {
	return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64)
}

func (c *canvas) line(x1, y1, x2, y2 float64, class string) {
	fmt.Fprintf(&c.b, `<line x1="%s" y1="%s" x2="%s" y2="%s" class="%s"/>`, num(x1), num(y1), num(x2), num(y2), class)
}

// text anchors at "start", "middle" or "end".
func (c *canvas) text(x, y float64, anchor, class, s string) {
	fmt.Fprintf(&c.b, `<text x="%s" y="%s" text-anchor="%s" class="%s">%s</text>`, num(x), num(y), anchor, class, html.EscapeString(s))
}

// open and close a group with a tooltip.
func (c *canvas) open(class, tip string) {
	fmt.Fprintf(&c.b, `<g class="%s"><title>%s</title>`, class, html.EscapeString(tip))
}

func (c *canvas) close() { c.b.WriteString("</g>") }

// mark draws a point's marker; shapes tell series apart where colours cannot.
func (c *canvas) mark(shape int, x, y float64, class string) {
	const r = 4.5
	switch shape % 6 {
	case 0:
		fmt.Fprintf(&c.b, `<circle cx="%s" cy="%s" r="%s" class="%s"/>`, num(x), num(y), num(r), class)
	case 1:
		fmt.Fprintf(&c.b, `<rect x="%s" y="%s" width="%s" height="%s" class="%s"/>`, num(x-r+0.5), num(y-r+0.5), num(2*r-1), num(2*r-1), class)
	case 2:
		c.polygon(class, x, y-r-0.5, x+r+0.5, y+r-0.5, x-r-0.5, y+r-0.5)
	case 3:
		c.polygon(class, x, y-r-1, x+r+1, y, x, y+r+1, x-r-1, y)
	case 4:
		c.polygon(class, x, y+r+0.5, x+r+0.5, y-r+0.5, x-r-0.5, y-r+0.5)
	case 5:
		c.polygon(class, x-r, y-1.6, x-1.6, y-1.6, x-1.6, y-r, x+1.6, y-r, x+1.6, y-1.6, x+r, y-1.6, x+r, y+1.6, x+1.6, y+1.6, x+1.6, y+r, x-1.6, y+r, x-1.6, y+1.6, x-r, y+1.6)
	}
}

func (c *canvas) polygon(class string, xy ...float64) {
	fmt.Fprintf(&c.b, `<polygon points="%s" class="%s"/>`, points(xy), class)
}

func (c *canvas) polyline(class string, xy ...float64) {
	fmt.Fprintf(&c.b, `<polyline points="%s" class="%s"/>`, points(xy), class)
}

func points(xy []float64) string {
	var words []string
	for i := 0; i+1 < len(xy); i += 2 {
		words = append(words, num(xy[i])+","+num(xy[i+1]))
	}
	return strings.Join(words, " ")
}

// chars is how many characters of chart text fit into a width, in the widest of the
// fonts that the style sheet names.
func chars(width float64) int { return max(int(width/(fontSize*0.64)), 4) }

// wrap breaks words into lines of at most n characters, at most lines of them; what
// does not fit ends in an ellipsis.
func wrap(s string, n, lines int) []string {
	var out []string
	line := ""
	for _, word := range strings.Fields(s) {
		for len([]rune(word)) > n { // longer than a line
			if line != "" {
				out, line = append(out, line), ""
			}
			r := []rune(word)
			out = append(out, string(r[:n]))
			word = string(r[n:])
		}
		switch {
		case line == "":
			line = word
		case len([]rune(line))+1+len([]rune(word)) <= n:
			line += " " + word
		default:
			out, line = append(out, line), word
		}
	}
	if line != "" {
		out = append(out, line)
	}
	if len(out) > lines {
		out = out[:lines]
		r := []rune(out[lines-1])
		if len(r) >= n {
			r = r[:n-1]
		}
		out[lines-1] = string(r) + "…"
	}
	return out
}

// boldChars is the same for the bold capitals of a setting's name.
func boldChars(width float64) int { return max(int(width/(fontSize*0.8)), 4) }

// wrapLines keeps the breaks that are there and wraps between them.
func wrapLines(s string, n, lines int) []string {
	var out []string
	for line := range strings.SplitSeq(s, "\n") {
		out = append(out, wrap(line, n, max(lines-len(out), 1))...)
	}
	return out
}

// axis maps values to a length, linearly or by logarithm.
type axis struct {
	lo, hi   float64 // values at the ends
	from, to float64 // coordinates at the ends
	log      bool
}

func (a axis) at(v float64) float64 {
	lo, hi := a.lo, a.hi
	if a.log {
		v, lo, hi = math.Log(v), math.Log(lo), math.Log(hi)
	}
	return a.from + (a.to-a.from)*min(max((v-lo)/(hi-lo), 0), 1)
}

// linear makes an axis from 0 to a round number above the largest value.
func linear(most, from, to float64) axis {
	if !(most > 0) || math.IsInf(most, 0) {
		most = 1
	}
	step := roundStep(most, 5)
	return axis{lo: 0, hi: step * math.Ceil(most/step*(1-1e-9)), from: from, to: to}
}

// roundStep is 1, 2, 2.5 or 5 times a power of ten that cuts a range into at most n
// parts.
func roundStep(span float64, n int) float64 {
	p := math.Pow(10, math.Floor(math.Log10(span/float64(n))))
	for _, m := range []float64{1, 2, 2.5, 5, 10} {
		if span/(m*p) <= float64(n)+1e-9 {
			return m * p
		}
	}
	return 10 * p
}

// ticks are the values to be labelled, at least gap apart.
func (a axis) ticks(gap float64) []float64 {
	var all []float64
	if !a.log {
		n := max(int(math.Abs(a.to-a.from)/gap), 1)
		step := roundStep(a.hi-a.lo, n)
		for k := math.Ceil(a.lo/step - 1e-9); k*step <= a.hi*(1+1e-9); k++ {
			all = append(all, k*step+0) // not -0
		}
		return all
	}
	for _, mantissas := range [][]float64{{1}, {1, 3}, {1, 2, 5}, {1, 1.5, 2, 3, 5, 7}} {
		var more []float64
		for e := math.Floor(math.Log10(a.lo)); e <= math.Ceil(math.Log10(a.hi)); e++ {
			for _, m := range mantissas {
				if v := m * math.Pow(10, e); v >= a.lo*(1-1e-9) && v <= a.hi*(1+1e-9) {
					more = append(more, v)
				}
			}
		}
		slices.Sort(more)
		if a.apart(more, gap) || all == nil {
			all = more
		}
	}
	return thin(a, all, gap)
}

func (a axis) apart(values []float64, gap float64) bool {
	for i := 1; i < len(values); i++ {
		if math.Abs(a.at(values[i])-a.at(values[i-1])) < gap {
			return false
		}
	}
	return true
}

// thin leaves out values that are too near to the one before.
func thin(a axis, values []float64, gap float64) []float64 {
	var out []float64
	for _, v := range values {
		if len(out) == 0 || math.Abs(a.at(v)-a.at(out[len(out)-1])) >= gap {
			out = append(out, v)
		}
	}
	return out
}

// short prints a number of an axis with a decimal prefix.
func short(v float64) string {
	for _, u := range []struct {
		size float64
		name string
	}{{1e12, " T"}, {1e9, " G"}, {1e6, " M"}, {1e4, " k"}} {
		if math.Abs(v) >= u.size {
			if u.size == 1e4 {
				u.size = 1e3
			}
			return strconv.FormatFloat(v/u.size, 'g', 3, 64) + u.name
		}
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}
