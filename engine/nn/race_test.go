//go:build race

package nn_test

// raceDetector slows the Go references down tenfold.
const raceDetector = true
