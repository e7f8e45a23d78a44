//go:build linux

package bridge

import (
	"unsafe"

	"dev.gpustall/engine/trace"
)

// kind is the kind of a record, as engine/torch/python/gpustall/ring.py numbers it.
type kind uint8

const (
	kindNext      kind = iota + 1 // the loop waited for a batch
	kindBody                      // the loop did something with it
	kindEnd                       // the loop asked for a batch after the last one
	kindIter                      // the loop began an iterator
	kindPause                     // the loop was paused from the screen
	kindApply                     // the loop applied a change, within a kindNext
	kindDevice                    // the device worked on a step
	kindBackward                  // the loop was in a backward pass, within a kindBody
	kindOptimizer                 // the loop was in an optimizer's step, within a kindBody
	kindLast                      // the process ends: the number of the last step, when that step began, and the samples of all steps
	kindBrief                     // several brief steps: for each the end of the step before it, and the wait for its batch
	kindSampler                   // the loop drew the indices of a batch, within a kindNext or kindIter
)

const (
	kindStart kind = iota + 16 // a worker began
	kindWait                   // a worker waited for a task
	kindRead
	kindDecode
	kindTransform
	kindFetch
	kindCollate
	kindPinned
	kindBatch // a batch as a whole
	kindSent  // a thread of the worker pickled a batch, to send it to the loop
	kindLook  // a thread of the process looked at its frames
)

// Flags of records.
const (
	flagFinal    = 1 << iota // of kindBody: the step ends with this record
	flagFirst                // of kindNext: the first batch of an epoch; of kindWait: for the worker's first task
	flagTrain                // the loop trains
	flagChanging             // of kindNext: a change still shows
	flagProfiled             // of kindNext: its step runs under PyTorch's profiler
	flagGoesOn               // of kindDevice: its step goes on
	flagWhole                // of kindFetch: the phases of its batch were not timed
)

// brief is a record of kindBrief, whose slot has different fields in some places.
type brief struct {
	Start              int64  // when the step before the first got its batch
	Third, Samples     uint32 // ns of the third wait; the samples of each step
	Through            int64  // the samples of all steps, with these
	Body, Next         uint32 // ns that the step before the first took, and the wait after it
	Iteration, Round   uint32
	Batch, Step        int32 // of the first
	SecondBody, Second uint32
	Kind               kind
	Many               uint8
	Flags              uint16
	ThirdBody          uint32
}

var _ [recordSize]byte = [unsafe.Sizeof(brief{})]byte{}

// apart appends the records that a record of kindBrief stands for.
func (b *brief) apart(into []record) []record {
	took := [...][2]uint32{{b.Body, b.Next}, {b.SecondBody, b.Second}, {b.ThirdBody, b.Third}}
	many, at := min(int(b.Many), len(took)), b.Start
	for i, ns := range took[:many] {
		body := record{
			Kind: kindBody, Iteration: b.Iteration, Round: b.Round, Batch: b.Batch + int32(i) - 1, Step: b.Step + int32(i) - 1,
			Start: at, End: at + int64(ns[0]), Core: -1, Waiting: -1, Sample: -1, Flags: b.Flags | flagFinal,
		}
		next := body
		next.Kind, next.Batch, next.Step, next.Flags, next.Arg = kindNext, body.Batch+1, body.Step+1, b.Flags, b.Samples
		next.Start, next.End = body.End, body.End+int64(ns[1])
		next.Core = b.Through - int64(many-1-i)*int64(b.Samples)
		at = next.End
		into = append(into, body, next)
	}
	return into
}

// phases are the records that are phases of loading.
var phases = map[kind]trace.Kind{
	kindRead: trace.KindRead, kindDecode: trace.KindDecode, kindTransform: trace.KindTransform,
	kindFetch: trace.KindFetch, kindCollate: trace.KindCollate, kindPinned: trace.KindPin,
}

// parts are the records of what the loop does within a kindBody.
var parts = map[kind]trace.Kind{kindBackward: trace.KindBackward, kindOptimizer: trace.KindOptimizer}

// split returns the split of the record's time; zero where that was not measured.
func (r *record) split() trace.Split {
	if r.Core < 0 || r.Waiting < 0 {
		return trace.Split{}
	}
	wall := r.End - r.Start
	core := min(r.Core, wall)
	waiting := min(r.Waiting, wall-core)
	return trace.Split{Core: core, Waiting: waiting, Blocked: wall - core - waiting}
}

// span returns the record's time as a span, of no step and no batch.
func (r *record) span(k trace.Kind) trace.Span {
	return trace.Span{Start: r.Start, End: r.End, Step: -1, Batch: -1, Kind: k}
}

// batchID returns the name of the record's batch.
func (r *record) batchID() batchID { return batchID{r.Round, r.Batch} }
