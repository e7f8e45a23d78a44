// Package pixels has the faster ways of what kernels.Blur, Colours, Resample and Shift do with RGB images,
// on the processor: the loader's transforms and the cpu device share them. The bytes are those
// of the references.
package pixels
