package page

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
)

// A row is one line of a chart that lists scenarios under each other.
type row struct {
	label  string // what is measured
	detail string // with which parameters, in smaller letters
	value  string // the numbers in words
	tip    string
	mid    float64
	lo, hi float64 // an interval, for ratios
	shown  bool    // a difference is shown
	fault  bool    // the check of its output did not hold
	shape  int
}

// rowsLayout places rows: on a screen beside the plot, on a phone above it.
type rowsLayout struct {
	labels [][]string
	detail [][]string
	tops   []float64
	left   float64
	right  float64
	values float64 // where the numbers start
	bottom float64
}

const lineHeight = 16.0

func layoutRows(c *canvas, rows []row, top float64) rowsLayout {
	var l rowsLayout
	width := c.w - 8
	l.left, l.right = 20, c.w-24
	if !c.narrow() {
		width = 290
		l.left, l.right = 306, c.w-260
		l.values = c.w - 248
	}
	y := top
	for _, r := range rows {
		label, detail := wrap(r.label, boldChars(width), 3), wrap(r.detail, chars(width), 3)
		l.labels, l.detail = append(l.labels, label), append(l.detail, detail)
		l.tops = append(l.tops, y)
		h := lineHeight * float64(len(label)+len(detail))
		if c.narrow() {
			h += lineHeight*float64(len(wrapLines(r.value, chars(width), 5))) + 24
		} else {
			h = max(h, lineHeight*float64(len(wrapLines(r.value, chars(c.w-l.values), 5))))
		}
		y += h + 12
	}
	l.bottom = y
	return l
}

// grid draws a line of the axis: through on a screen, beside the marks on a phone,
// where text is above them.
func (l *rowsLayout) grid(c *canvas, x, from, to float64, class string) {
	if !c.narrow() {
		c.line(x, from, x, to, class)
		return
	}
	for i := range l.tops {
		end := l.bottom
		if i+1 < len(l.tops) {
			end = l.tops[i+1]
		}
		c.line(x, end-34, x, end-10, class)
	}
}

// draw puts a row's text and gives the height of its mark.
func (l *rowsLayout) draw(c *canvas, i int, r row) (y float64) {
	top := l.tops[i]
	if i > 0 {
		c.line(0, top-6, c.w, top-6, "rule")
	}
	y = top + 11
	for _, s := range l.labels[i] {
		c.text(4, y, "start", "name", s)
		y += lineHeight
	}
	for _, s := range l.detail[i] {
		c.text(4, y, "start", "muted", s)
		y += lineHeight
	}
	class := "value"
	if r.fault {
		class = "value fault"
	} else if !r.shown {
		class = "value muted"
	}
	if c.narrow() {
		for _, s := range wrapLines(r.value, chars(c.w-8), 5) {
			c.text(4, y, "start", class, s)
			y += lineHeight
		}
		return y
	}
	v := top + 11
	for _, s := range wrapLines(r.value, chars(c.w-l.values), 5) {
		c.text(l.values, v, "start", class, s)
		v += lineHeight
	}
	return top + (max(y, v)-11-top)/2 + 2
}

// ratioTicks are the ratios that an axis may have labels at.
var ratioTicks = []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.33, 0.5, 0.67, 0.8, 0.9, 0.95, 0.98, 1, 1.02, 1.05, 1.1, 1.25, 1.5, 2, 3, 5, 10, 20, 50, 100}

// forest draws ratios with their intervals around 1.
func forest(label string, rows []row) template.HTML {
	lo, hi := 0.97, 1/0.97
	for _, r := range rows {
		lo, hi = min(lo, r.lo), max(hi, r.hi)
	}
	pad := math.Pow(hi/lo, 0.04)
	lo, hi = max(lo/pad, 1e-3), min(hi*pad, 1e3)
	return both(label, func(c *canvas) {
		l := layoutRows(c, rows, 40)
		x := axis{lo: lo, hi: hi, from: l.left, to: l.right, log: true}
		c.h = l.bottom + 26
		foot := l.bottom - 4
		one := x.at(1)
		left, right := "B faster", "B slower"
		if one-l.left > 62 {
			c.text(one-8, 12, "end", "muted", "← "+left)
		}
		if l.right-one > 62 {
			c.text(one+8, 12, "start", "muted", right+" →")
		}
		var ticks []float64
		for _, t := range ratioTicks {
			if t == 1 || t >= lo && t <= hi && math.Abs(x.at(t)-one) >= 34 {
				ticks = append(ticks, t)
			}
		}
		if i := slices.Index(ticks, 1); i >= 0 { // thin from 1 outwards, so that it stays
			below := slices.Clone(ticks[:i+1])
			slices.Reverse(below)
			below = thin(x, below, 34)
			slices.Reverse(below)
			ticks = append(below, thin(x, ticks[i:], 34)[1:]...)
		}
		for _, t := range ticks {
			class := "grid"
			if t == 1 {
				class = "one"
			}
			l.grid(c, x.at(t), 36, foot, class)
			c.text(x.at(t), 30, "middle", "tick", fmt.Sprintf("%g", t))
			c.text(x.at(t), foot+18, "middle", "tick", fmt.Sprintf("%g", t))
		}
		for i, r := range rows {
			y := l.draw(c, i, r)
			class := "none"
			if r.shown {
				class = "slower"
				if r.mid < 1 {
					class = "faster"
				}
			}
			if r.fault {
				class = "bad"
			}
			c.open("row "+class, r.tip)
			c.line(x.at(r.lo), y, x.at(r.hi), y, "whisker")
			c.line(x.at(r.lo), y-5, x.at(r.lo), y+5, "whisker")
			c.line(x.at(r.hi), y-5, x.at(r.hi), y+5, "whisker")
			c.mark(r.shape, x.at(r.mid), y, "dot")
			c.close()
		}
	})
}

// bars draws shares of a limit.
func bars(label string, rows []row) template.HTML {
	most := 0.02
	for _, r := range rows {
		most = max(most, r.mid)
	}
	return both(label, func(c *canvas) {
		l := layoutRows(c, rows, 26)
		x := linear(100*most, l.left, l.right)
		c.h = l.bottom + 26
		foot := l.bottom - 4
		for _, t := range x.ticks(44) {
			class := "grid"
			if t == 100 {
				class = "one"
			}
			l.grid(c, x.at(t), 22, foot, class)
			c.text(x.at(t), 14, "middle", "tick", short(t)+" %")
			c.text(x.at(t), foot+18, "middle", "tick", short(t)+" %")
		}
		for i, r := range rows {
			y := l.draw(c, i, r)
			c.open("row s"+fmt.Sprint(r.shape%6), r.tip)
			fmt.Fprintf(&c.b, `<rect x="%s" y="%s" width="%s" height="14" class="bar"/>`, num(x.from), num(y-7), num(max(x.at(100*r.mid)-x.from, 1)))
			c.close()
		}
	})
}

// joined is a list in words.
func joined(words ...string) string {
	var out []string
	for _, w := range words {
		if w != "" {
			out = append(out, w)
		}
	}
	return strings.Join(out, " ")
}
