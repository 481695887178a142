package libm

import "math"

// Sinh is the hyperbolic sine.
func Sinh(x float32) float32 {
	d := float64(x)
	a := math.Abs(d)
	switch {
	case x == 0 || x-x != 0:
		return x
	case a < 0x1p-8:
		// The next term is below 1e-17 of x.
		z := d * d
		return float32(d + float64(float64(float64(float64(z*(1.0/120))+1.0/6)*z)*d))
	case a > 100:
		return x * inf
	}
	e := exp64(a)
	y := 0.5 * float64(e-1/e)
	if d < 0 {
		y = -y
	}
	return float32(y)
}

// Cosh is the hyperbolic cosine.
func Cosh(x float32) float32 {
	a := math.Abs(float64(x))
	switch {
	case x != x:
		return x
	case a > 100:
		return inf
	}
	e := exp64(a)
	return float32(0.5 * float64(e+1/e))
}

// Tanh is the hyperbolic tangent.
func Tanh(x float32) float32 {
	d := float64(x)
	a := math.Abs(d)
	switch {
	case x == 0 || x != x:
		return x
	case a < 0x1p-8:
		z := d * d
		return float32(d + float64(float64(float64(float64(z*(2.0/15))-1.0/3)*z)*d))
	}
	y := 1.0
	if a < 20 {
		y = 1 - 2/(exp64(2*a)+1)
	}
	if d < 0 {
		y = -y
	}
	return float32(y)
}

// Erf is the error function: up to 2 by the series of positive terms
// 2/sqrt(pi) e^(-x^2) sum 2^n x^(2n+1)/(2n+1)!!, then 1 minus the continued
// fraction of erfc.
func Erf(x float32) float32 {
	d := float64(x)
	a := math.Abs(d)
	if x == 0 || x != x {
		return x
	}
	const twoOverSqrtPi = 1.128379167095512573896158903121545172
	z := float64(d * d)
	var y float64
	switch {
	case a < 2:
		sum, term := 1.0, 1.0
		for n := 1; n <= 36; n++ {
			term = float64(term*float64(2*z)) / float64(2*n+1)
			sum = sum + term
		}
		y = float64(float64(twoOverSqrtPi*exp64(-z))*a) * sum
	case a < 4:
		f := 1.0
		for n := 40; n >= 1; n-- {
			f = 1 + float64(float64(n)/float64(2*z))/f
		}
		y = 1 - float64(float64(0.5*twoOverSqrtPi)*exp64(-z))/float64(a*f)
	default:
		y = 1
	}
	if d < 0 {
		y = -y
	}
	return float32(y)
}
