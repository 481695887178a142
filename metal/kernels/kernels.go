// Package kernels holds the project's Metal Shading Language kernels, one family
// a file: the one source for all devices, an fs.FS that a user can replace.
package kernels
