package cuda

// TensorOf is how a device of capability 9.0 makes products that may be off by an
// error.
func TensorOf(productError float64) Tensor {
	return (&Device{driver: &Driver{attrs: attributes{major: 9}}}).tensor(productError)
}
