// Package advice says what a session's numbers mean: what holds the device up, what
// to try about it, and what a reader must know of the numbers. It is pure: a
// session goes in, words and values come out.
package advice
