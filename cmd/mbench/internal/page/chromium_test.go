package page

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"minfer/harness"
)

var shots = flag.String("screenshots", "", "folder for pictures of the page in the browser")

// browser is a headless Chromium, spoken to by the DevTools protocol over two pipes:
// messages of JSON, each with a zero byte behind it.
type browser struct {
	t       *testing.T
	to      *os.File
	in      *bufio.Reader
	id      int
	session string
	events  []message
}

type message struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// startBrowser skips, loudly, where there is none.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		t.Skip("NO BROWSER HERE: the page was not opened in one (Debian: apt-get install chromium)")
	}
	fromUs, toThem, err := os.Pipe()
	require.NoError(t, err)
	fromThem, toUs, err := os.Pipe()
	require.NoError(t, err)
	deadline := time.Now().Add(90 * time.Second)
	fromThem.SetReadDeadline(deadline)
	cmd := exec.Command(path, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run", "--hide-scrollbars",
		"--disable-background-networking", "--disable-component-update", "--disable-default-apps", "--disable-sync", "--disable-dev-shm-usage",
		"--host-resolver-rules=MAP * ~NOTFOUND", "--user-data-dir="+t.TempDir())
	var log bytes.Buffer
	cmd.Stderr = &log
	cmd.ExtraFiles = []*os.File{fromUs, toUs} // 3 is read, 4 is written
	require.NoError(t, cmd.Start())
	fromUs.Close()
	toUs.Close()
	b := &browser{t: t, to: toThem, in: bufio.NewReader(fromThem)}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(log.String())
		}
		cmd.Process.Kill()
		cmd.Wait()
		toThem.Close()
		fromThem.Close()
	})
	return b
}

func (b *browser) read() message {
	data, err := b.in.ReadBytes(0)
	require.NoError(b.t, err, "the browser went silent")
	var m message
	require.NoError(b.t, json.Unmarshal(data[:len(data)-1], &m))
	return m
}

// call sends a command and waits for its answer, keeping the events between.
func (b *browser) call(method string, params map[string]any, result any) {
	b.t.Helper()
	b.id++
	m := map[string]any{"id": b.id, "method": method, "params": params}
	if b.session != "" {
		m["sessionId"] = b.session
	}
	data, err := json.Marshal(m)
	require.NoError(b.t, err)
	_, err = b.to.Write(append(data, 0))
	require.NoError(b.t, err)
	for {
		got := b.read()
		if got.ID != b.id {
			b.events = append(b.events, got)
			continue
		}
		require.Nil(b.t, got.Error, "%s: %+v", method, got.Error)
		if result != nil {
			require.NoError(b.t, json.Unmarshal(got.Result, result))
		}
		return
	}
}

// open attaches to a new page and loads a file, noting all that happens.
func (b *browser) open(file string) {
	var target struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network", "Accessibility", "DOM"} {
		b.call(domain+".enable", nil, nil)
	}
	b.events = nil
	b.call("Page.navigate", map[string]any{"url": (&url.URL{Scheme: "file", Path: file}).String()}, nil)
	b.wait("Page.loadEventFired")
}

func (b *browser) wait(method string) {
	for _, e := range b.events {
		if e.Method == method {
			return
		}
	}
	for {
		e := b.read()
		b.events = append(b.events, e)
		if e.Method == method {
			return
		}
	}
}

// eval gives the value of an expression.
func (b *browser) eval(expression string, value any) {
	b.t.Helper()
	var got struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	b.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &got)
	require.Empty(b.t, string(got.ExceptionDetails), expression)
	require.NoError(b.t, json.Unmarshal(got.Result.Value, value), expression)
}

// view sets a screen and a colour scheme.
func (b *browser) view(width, height int, scale float64, phone bool, scheme string) {
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": scale, "mobile": phone}, nil)
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

func (b *browser) shot(name string) {
	var got struct{ Data string }
	b.call("Page.captureScreenshot", map[string]any{"format": "png", "optimizeForSpeed": true}, &got)
	data, err := base64.StdEncoding.DecodeString(got.Data)
	require.NoError(b.t, err)
	require.Greater(b.t, len(data), 5000, "an empty picture")
	if *shots != "" {
		require.NoError(b.t, os.WriteFile(filepath.Join(*shots, name+".png"), data, 0o644))
	}
}

// drawn looks at every picture that is shown: its size, its marks, and texts that
// leave it or that are too small to read.
const drawn = `(() => {
  const faults = []; let pictures = 0, marks = 0;
  for (const svg of document.querySelectorAll('figure svg[role=img]')) {
    const box = svg.getBoundingClientRect();
    if (box.width === 0) continue;
    pictures++;
    const name = svg.getAttribute('aria-label');
    if (box.width < 200 || box.height < 80) faults.push('small: ' + name);
    const dots = svg.querySelectorAll('.dot, .bar');
    marks += dots.length;
    if (dots.length === 0) faults.push('nothing drawn: ' + name);
    for (const d of dots) { const r = d.getBoundingClientRect(); if (r.width < 0.5 || r.left < box.left - 1 || r.right > box.right + 1 || r.top < box.top - 1 || r.bottom > box.bottom + 1) faults.push('mark outside: ' + name); }
    const texts = [...svg.querySelectorAll('text')].map(t => [t, t.getBoundingClientRect()]);
    for (const [t, r] of texts) {
      if (r.left < box.left - 1 || r.right > box.right + 1 || r.top < box.top - 1 || r.bottom > box.bottom + 1) faults.push('text outside: ' + t.textContent + ' in ' + name);
      if (r.height < 12) faults.push('text of ' + r.height + ' pixels: ' + t.textContent);
    }
    for (let i = 0; i < texts.length; i++) for (let k = i + 1; k < texts.length; k++) {
      const a = texts[i][1], c = texts[k][1];
      if (Math.min(a.right, c.right) - Math.max(a.left, c.left) > 1 && Math.min(a.bottom, c.bottom) - Math.max(a.top, c.top) > 4) faults.push('texts over each other: ' + texts[i][0].textContent + ' | ' + texts[k][0].textContent + ' in ' + name);
    }
  }
  if (document.documentElement.scrollWidth > window.innerWidth) faults.push('the page is wider than the screen: ' + document.documentElement.scrollWidth);
  return {faults, pictures, marks};
})()`

// contrast gives the texts and marks whose contrast with what is behind them is
// below what WCAG 2 asks: 4.5 for text, 3 for marks.
const contrast = `(() => {
  const lum = c => { const v = c.match(/[\d.]+/g).slice(0, 3).map(x => { x /= 255; return x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4; }); return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2]; };
  const ratio = (a, b) => { const x = lum(a), y = lum(b); return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05); };
  const behind = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (c !== 'rgba(0, 0, 0, 0)') return c; } return 'rgb(255, 255, 255)'; };
  const bad = new Set(); let looked = 0;
  for (const e of document.querySelectorAll('h1,h2,h3,p,a,dt,dd,li span,summary,th,td,svg text,.dot,.bar,.whisker,.curve')) {
    if (e.getBoundingClientRect().width === 0) continue;
    looked++;
    const s = getComputedStyle(e), text = !e.matches('.dot,.bar,.whisker,.curve');
    const colour = e.matches('svg text') ? s.fill : e.matches('.whisker,.curve,.dot') ? s.stroke : e.matches('.bar') ? s.fill : s.color;
    const r = ratio(colour, behind(e));
    if (r < (text ? 4.5 : 3)) bad.add(e.tagName + '.' + e.getAttribute('class') + ' ' + colour + ': ' + r.toFixed(2));
  }
  return {bad: [...bad], looked};
})()`

// screen is where a page is looked at.
type screen struct {
	name          string
	width, height int
	scale         float64
	phone         bool
	scheme        string
}

// look holds the open page against what a reader needs, on each screen.
func (b *browser) look(t *testing.T, name string, figures int, screens []screen) {
	t.Helper()
	for _, v := range screens {
		b.view(v.width, v.height, v.scale, v.phone, v.scheme)
		var got struct {
			Faults          []string
			Pictures, Marks int
		}
		b.eval(drawn, &got)
		require.Empty(t, got.Faults, name+v.name)
		require.Equal(t, figures, got.Pictures, name+v.name)
		require.Greater(t, got.Marks, 100, name+v.name)
		var colours struct {
			Bad    []string
			Looked int
		}
		b.eval(contrast, &colours)
		require.Empty(t, colours.Bad, name+v.name)
		require.Greater(t, colours.Looked, 500, name+v.name)
		if *shots == "" {
			if v.phone {
				continue
			}
			b.shot("")
			continue
		}
		b.shot(name + v.name)
		var sections []string // the rest of the page
		b.eval(`[...document.querySelectorAll('h2[id]')].map(h => h.id)`, &sections)
		b.view(v.width, 2*v.height, v.scale, v.phone, v.scheme)
		var done bool
		for _, id := range sections {
			b.eval(fmt.Sprintf("document.getElementById(%q).scrollIntoView(), true", id), &done)
			b.shot(name + v.name + "-" + id)
		}
		b.eval("window.scrollTo(0, 0), true", &done)
	}
}

// In a real browser, on a screen and on a phone, in light and in dark: everything is
// drawn, inside its picture and readable, nothing is said on the console, nothing is
// asked of the network, and the tree that a screen reader sees has names.
func TestInChromium(t *testing.T) {
	b := startBrowser(t)
	file := filepath.Join(t.TempDir(), "report.html")
	html := write(t, synthetic())
	require.NoError(t, os.WriteFile(file, []byte(html), 0o644))
	b.open(file)
	figures := strings.Count(html, "<figure")
	b.look(t, "", figures, []screen{
		{"desktop-light", 1280, 900, 1, false, "light"},
		{"desktop-dark", 1280, 900, 1, false, "dark"},
		{"tablet-light", 820, 1100, 1, true, "light"},
		{"phone-light", 390, 844, 2, true, "light"},
		{"phone-dark", 360, 740, 2, true, "dark"},
	})

	// The keyboard reaches the skip link first, then the sections and the tables.
	b.view(1280, 900, 1, false, "light")
	var focus []string
	for range 9 {
		for _, kind := range []string{"keyDown", "keyUp"} {
			b.call("Input.dispatchKeyEvent", map[string]any{"type": kind, "key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9}, nil)
		}
		var name string
		b.eval(`document.activeElement.tagName + ' ' + document.activeElement.textContent.slice(0, 20) + ' ' + (getComputedStyle(document.activeElement).outlineStyle !== 'none')`, &name)
		focus = append(focus, name)
	}
	require.Equal(t, "A Skip to the results true", focus[0])
	require.Equal(t, "A What each lever does true", focus[1])
	require.Equal(t, "SUMMARY The numbers as a tab true", focus[8])
	b.call("Input.dispatchKeyEvent", map[string]any{"type": "keyDown", "key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"}, nil)
	var opened int
	b.eval(`document.querySelectorAll('details[open] table').length`, &opened)
	require.Equal(t, 1, opened)

	// What a screen reader has: every picture, figure, region and link with a name, and
	// headings without a gap in their levels.
	var tree struct {
		Nodes []struct {
			Ignored    bool
			Role, Name struct{ Value any }
			Properties []struct {
				Name  string
				Value struct{ Value any }
			}
		}
	}
	b.call("Accessibility.getFullAXTree", nil, &tree)
	roles := map[string]int{}
	level := 0
	for _, n := range tree.Nodes {
		if n.Ignored {
			continue
		}
		role := fmt.Sprint(n.Role.Value)
		roles[role]++
		name, _ := n.Name.Value.(string)
		switch role {
		case "image", "img", "figure", "region", "link", "heading", "navigation", "table", "DisclosureTriangle":
			require.NotEmpty(t, strings.TrimSpace(name), "%s without a name", role)
		}
		if role == "heading" {
			for _, p := range n.Properties {
				if p.Name == "level" {
					next := int(p.Value.Value.(float64))
					require.LessOrEqual(t, next, level+1, name)
					level = next
				}
			}
		}
	}
	require.Equal(t, figures, roles["image"]+roles["img"], roles)
	require.Equal(t, figures, roles["figure"])
	require.Equal(t, 1, roles["main"])
	require.Equal(t, 1, roles["navigation"], "those of sections are closed")
	require.Positive(t, roles["columnheader"])

	require.Empty(t, b.noise(t, file))

	// The page of the committed records, which have more and longer rows, likewise.
	files, err := filepath.Glob("../../../../results/records/*.jsonl")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	var records []harness.Record
	for _, name := range files {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		more, err := harness.ReadRecords(name, data)
		require.NoError(t, err)
		records = append(records, more...)
	}
	html = write(t, records)
	require.NoError(t, os.WriteFile(file, []byte(html), 0o644))
	b.open(file)
	narrowest := []screen{{"phone-light", 360, 740, 2, true, "light"}}
	if *shots != "" {
		narrowest = append(narrowest, screen{"desktop-dark", 1280, 900, 1, false, "dark"})
	}
	b.look(t, "committed-", strings.Count(html, "<figure"), narrowest)
	require.Empty(t, b.noise(t, file))

	// The looks see what they are for.
	require.NoError(t, os.WriteFile(file, []byte(bad), 0o644))
	b.open(file)
	var got struct{ Faults []string }
	b.eval(drawn, &got)
	require.Len(t, got.Faults, 4, got.Faults)
	var colours struct{ Bad []string }
	b.eval(contrast, &colours)
	require.Len(t, colours.Bad, 1)
	noise := strings.Join(b.noise(t, file), "\n")
	for _, want := range []string{"asked for http://example.invalid/x.png", `"said"`, "nothing is not defined"} {
		require.Contains(t, noise, want)
	}
}

// noise is what was said on the console and asked for, the page itself aside.
func (b *browser) noise(t *testing.T, file string) (faults []string) {
	t.Helper()
	itself := false
	for _, e := range b.events {
		switch e.Method {
		case "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded":
			faults = append(faults, "console: "+string(e.Params))
		case "Network.requestWillBeSent":
			var r struct{ Request struct{ URL string } }
			require.NoError(t, json.Unmarshal(e.Params, &r))
			if r.Request.URL == "file://"+file {
				itself = true
			} else if !strings.HasPrefix(r.Request.URL, "data:") {
				faults = append(faults, "asked for "+r.Request.URL)
			}
		}
	}
	require.True(t, itself, "the page itself is seen")
	return faults
}

// bad is a page with each fault that the looks are for.
const bad = `<!doctype html><title>x</title><style>p{color:#999;background:#fff}</style><p>pale</p>
<figure><svg role="img" aria-label="n" width="300" height="200" viewBox="0 0 300 200"><text x="290" y="20">outside</text><text x="5" y="60">one</text><text x="5" y="62">two</text></svg></figure>
<div style="width:5000px">wide</div><img src="http://example.invalid/x.png"><script>console.error("said"); nothing()</script>`
