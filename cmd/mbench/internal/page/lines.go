package page

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
)

// dot is a value with its interval at a place.
type dot struct {
	x, y, lo, hi float64
	tip          string
}

// series is dots that belong together.
type series struct {
	name string
	dots []dot
}

// plot is a chart of series over numbers.
type plot struct {
	label  string // for those who do not see it
	x, y   string // names of the axes
	series []series
	logX   bool
	logY   bool
	zero   bool     // y starts at 0 where it is linear
	xTicks []string // names at 0, 1, 2, ... in the place of numbers
	roofs  []roof
	loose  bool // dots without lines
	one    bool // a line at y = 1
}

// roof is a limit: y is at most slope*x and at most flat.
type roof struct{ slope, flat float64 }

// values of the axes' ends.
func (p *plot) ends() (x, y [2]float64) {
	x, y = [2]float64{math.Inf(1), math.Inf(-1)}, [2]float64{math.Inf(1), math.Inf(-1)}
	for _, s := range p.series {
		for _, d := range s.dots {
			x[0], x[1] = min(x[0], d.x), max(x[1], d.x)
			y[0], y[1] = min(y[0], d.lo), max(y[1], d.hi)
		}
	}
	for _, r := range p.roofs {
		knee := r.flat / r.slope
		x[0], x[1] = min(x[0], knee/4), max(x[1], knee*4)
		y[1] = max(y[1], r.flat)
	}
	if p.one {
		y[0], y[1] = min(y[0], 1), max(y[1], 1)
	}
	return x, y
}

func (p *plot) draw() template.HTML {
	return both(p.label, func(c *canvas) {
		c.h = 320
		if c.narrow() {
			c.h = 280
		}
		left, top, right, bottom := 66.0, 26.0, c.w-16, c.h-48
		ex, ey := p.ends()
		x := axis{lo: ex[0], hi: ex[1], from: left + 12, to: right - 12, log: p.logX && ex[0] > 0}
		if x.lo == x.hi {
			x.lo, x.hi = x.lo-0.5, x.hi+0.5
			if x.log {
				x.lo, x.hi = ex[0]/2, ex[0]*2
			}
		}
		var y axis
		switch {
		case p.logY && ey[0] > 0:
			y = axis{lo: ey[0] / 1.15, hi: ey[1] * 1.15, from: bottom, to: top, log: true}
		case p.zero:
			y = linear(ey[1], bottom, top)
		default:
			pad := max((ey[1]-ey[0])*0.08, 0.01*math.Abs(ey[1]))
			y = axis{lo: ey[0] - pad, hi: ey[1] + pad, from: bottom, to: top}
		}
		c.text(4, 13, "start", "muted", p.y)
		for _, t := range y.ticks(34) {
			c.line(left, y.at(t), right, y.at(t), "grid")
			c.text(left-6, y.at(t)+4, "end", "tick", short(t))
		}
		if p.one {
			c.line(left, y.at(1), right, y.at(1), "one")
		}
		c.line(left, bottom, right, bottom, "axis")
		for _, t := range p.ticksX(x, c) {
			c.line(x.at(t.at), bottom, x.at(t.at), bottom+5, "axis")
			half := tickWidth(t.name) / 2
			c.text(min(max(x.at(t.at), half+2), c.w-half-2), bottom+19, "middle", "tick", t.name)
		}
		c.text((left+right)/2, c.h-8, "middle", "muted", p.x)
		for _, r := range p.roofs {
			var xy []float64
			for i := range 65 {
				v := x.lo * math.Pow(x.hi/x.lo, float64(i)/64)
				xy = append(xy, x.at(v), y.at(max(min(r.slope*v, r.flat), y.lo)))
			}
			c.polyline("roof", xy...)
		}
		for i, s := range p.series {
			class := "s" + strconv.Itoa(i%6)
			fmt.Fprintf(&c.b, `<g class="%s">`, class)
			if !p.loose {
				var xy []float64
				for _, d := range s.dots {
					xy = append(xy, x.at(d.x), y.at(d.y))
				}
				c.polyline("curve", xy...)
			}
			for _, d := range s.dots {
				c.open("row", d.tip)
				if d.lo < d.hi {
					c.line(x.at(d.x), y.at(d.lo), x.at(d.x), y.at(d.hi), "whisker")
				}
				c.mark(i, x.at(d.x), y.at(d.y), "dot")
				c.close()
			}
			c.close()
		}
	})
}

// tickWidth is the most that a label of an axis takes.
func tickWidth(s string) float64 { return float64(len([]rune(s))) * 11.5 * 0.64 }

type tick struct {
	at   float64
	name string
}

// ticksX are names where there are some, the series' own places where they are few,
// and round numbers otherwise.
func (p *plot) ticksX(x axis, c *canvas) []tick {
	gap := 44.0
	var out []tick
	if p.xTicks != nil {
		free := math.Inf(-1)
		for i, name := range p.xTicks {
			half := tickWidth(name) / 2
			if v := min(x.at(float64(i)), c.w-half-2); v-half >= free {
				out = append(out, tick{float64(i), name})
				free = v + half + 8
			}
		}
		return out
	}
	var own []float64
	for _, s := range p.series {
		for _, d := range s.dots {
			if !slices.Contains(own, d.x) {
				own = append(own, d.x)
			}
		}
	}
	slices.Sort(own)
	values := x.ticks(gap)
	if !p.loose && len(own) <= 16 {
		values = thin(x, own, gap)
	}
	for _, v := range values {
		out = append(out, tick{v, short(v)})
	}
	return out
}

// legend is the series' names with their marks.
func (p *plot) legend() template.HTML {
	c := &canvas{}
	c.b.WriteString(`<ul class="legend">`)
	for i, s := range p.series {
		fmt.Fprintf(&c.b, `<li><svg width="26" height="14" viewBox="0 0 26 14" aria-hidden="true" class="s%d">`, i%6)
		if !p.loose {
			c.line(0, 7, 26, 7, "curve")
		}
		c.mark(i, 13, 7, "dot")
		fmt.Fprintf(&c.b, `</svg><span>%s</span></li>`, template.HTMLEscapeString(s.name))
	}
	c.b.WriteString(`</ul>`)
	return template.HTML(c.b.String())
}
