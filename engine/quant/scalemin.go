package quant

import "math"

// What Q4_K and Q5_K share: eight groups of 32 values, each with a scale and a
// minimum of 6 bits, packed into 12 bytes, under a half scale d and a half
// scale dmin. A value is (d*scale)*q - (dmin*minimum).

// fitGroup is the search of docs/numerics.md, section 14, for the scale and
// the (negated) minimum of one group of 32 that minimise the weighted squared
// error. nmax is the largest q; candidate s of steps+1 uses the inverse scale
// (rmin + 0.1*s + nmax)/(hi-lo). l receives the levels of the best candidate.
// The order of every sum is the contract.
func fitGroup(l *[32]uint8, x []float32, nmax int32, rmin float32, steps int) (scale, minimum float32) {
	x = x[:32]
	var w [32]float32
	var sum2 float32
	for _, v := range x {
		sum2 += float32(v * v)
	}
	av := float32(math.Sqrt(float64(sum2 / 32)))
	for i, v := range x {
		w[i] = av + abs(v)
	}

	lo, hi := x[0], x[0]
	sw := w[0]
	sx := float32(w[0] * x[0])
	for i := 1; i < 32; i++ {
		if x[i] < lo {
			lo = x[i]
		}
		if x[i] > hi {
			hi = x[i]
		}
		sw += w[i]
		sx += float32(w[i] * x[i])
	}
	if lo > 0 {
		lo = 0
	}
	if hi == lo {
		*l = [32]uint8{}
		return 0, -lo
	}

	is := float32(nmax) / (hi - lo)
	scale = 1 / is
	var best float32
	for i, v := range x {
		q := max(0, min(nmax, nearest(is*(v-lo))))
		l[i] = uint8(q)
		e := float32(float32(scale*float32(q))+lo) - v
		best += float32(w[i] * float32(e*e))
	}

	var cand [32]uint8
	for s := range steps + 1 {
		// lo is the minimum of the best candidate so far, hi never moves.
		is := (float32(rmin+float32(0.1*float32(s))) + float32(nmax)) / (hi - lo)
		var sl, sl2, sxl float32
		for i, v := range x {
			q := max(0, min(nmax, nearest(is*(v-lo))))
			cand[i] = uint8(q)
			wl := float32(w[i] * float32(q))
			sl += wl
			sl2 += float32(wl * float32(q))
			sxl += float32(wl * v)
		}
		det := float32(sw*sl2) - float32(sl*sl)
		if !(det > 0) {
			continue
		}
		ts := (float32(sw*sxl) - float32(sx*sl)) / det
		tm := (float32(sl2*sx) - float32(sl*sxl)) / det
		if tm > 0 {
			tm = 0
			ts = sxl / sl2
		}
		var err float32
		for i, v := range x {
			e := float32(float32(ts*float32(cand[i]))+tm) - v
			err += float32(w[i] * float32(e*e))
		}
		if err < best {
			*l, best, scale, lo = cand, err, ts, tm
		}
	}
	return scale, -lo
}

// scaleMinBlock fits one block of 256: the levels of its elements, the two
// half scales and the twelve packed bytes.
func scaleMinBlock(l *[256]uint8, packed []byte, x []float32, nmax int32, rmin float32, steps int) (d, dmin uint16) {
	var scales, mins [8]float32
	var group [32]uint8
	var topScale, topMin float32
	for g := range 8 {
		scales[g], mins[g] = fitGroup(&group, x[32*g:32*g+32], nmax, rmin, steps)
		copy(l[32*g:], group[:])
		if scales[g] > topScale {
			topScale = scales[g]
		}
		if mins[g] > topMin {
			topMin = mins[g]
		}
	}
	var perScale, perMin float32
	if topScale > 0 {
		perScale = 63 / topScale
	}
	if topMin > 0 {
		perMin = 63 / topMin
	}
	clear(packed[:12])
	for g := range 8 {
		a := min(63, uint8(nearest(perScale*scales[g])))
		b := min(63, uint8(nearest(perMin*mins[g])))
		if g < 4 {
			packed[g] = a
			packed[g+4] = b
			continue
		}
		packed[g+4] = a&15 | b<<4
		packed[g-4] |= a >> 4 << 6
		packed[g] |= b >> 4 << 6
	}
	d, dmin = F16(topScale/63), F16(topMin/63)

	// The levels once more, against the scales as stored.
	for g := range 8 {
		sc, mn := scaleMin(packed, g)
		ds := F32FromF16(d) * float32(sc)
		if ds == 0 {
			continue
		}
		dm := float32(F32FromF16(dmin) * float32(mn))
		for i := 32 * g; i < 32*g+32; i++ {
			l[i] = uint8(max(0, min(nmax, nearest((x[i]+dm)/ds))))
		}
	}
	return d, dmin
}

// scaleMin unpacks the 6-bit scale and minimum of group g.
func scaleMin(packed []byte, g int) (sc, mn uint8) {
	if g < 4 {
		return packed[g] & 63, packed[g+4] & 63
	}
	return packed[g+4]&15 | packed[g-4]>>6<<4, packed[g+4]>>4 | packed[g]>>6<<4
}
