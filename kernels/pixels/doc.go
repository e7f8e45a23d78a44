// Package pixels computes kernels.Blur, Colours, Resample and Shift of RGB images fast on the processor.
// The loader's transforms and the cpu device share it. Its results equal the references byte for byte.
package pixels
