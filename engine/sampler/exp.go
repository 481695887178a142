package sampler

import "math"

// exp is e^x for x <= 0, within 1e-15 of the true value. math.Exp differs in
// the last bits between platforms that have their own assembly for it, and one
// bit can move a token; here every product is rounded explicitly, so that no
// compiler fuses it with the addition that follows.
func exp(x float64) float64 {
	if x < -745 {
		return 0
	}
	const (
		ln2Hi = 0x1.62e42feep-1 // ln 2 in two pieces: k*ln2Hi is exact
		ln2Lo = 0x1.a39ef35793c76p-33
	)
	k := math.Round(float64(x * math.Log2E))
	r := float64(x-float64(k*ln2Hi)) - float64(k*ln2Lo)
	// Taylor's series of e^r, |r| <= ln(2)/2: the first term left out, r^14/14!,
	// is below 5e-18.
	p := 0.0
	for n := 13; n > 0; n-- {
		p = float64((1+p)*r) / float64(n)
	}
	return math.Ldexp(1+p, int(k))
}
