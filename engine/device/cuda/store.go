package cuda

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Store is Choices in memory. It is loaded from JSON, and saved as JSON after each change. Where
// it cannot be read or saved, the next run tunes again. An empty value is removed.
type Store struct {
	save func(text []byte) error

	mu sync.Mutex
	m  map[string]string
}

// NewStore returns a store with what text holds, as save was given it. Damaged text is an empty
// store. save may be nil.
func NewStore(text []byte, save func(text []byte) error) *Store {
	s := &Store{save: save}
	if json.Unmarshal(text, &s.m) != nil || s.m == nil {
		s.m = map[string]string{}
	}
	return s
}

// Get returns the value of a key.
func (s *Store) Get(key string) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.m[key]
	return v, ok
}

// Set stores and saves a value, and removes what it supersedes.
func (s *Store) Set(key, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.m, func(old, _ string) bool { return supersedes(key, old) })
	if value == "" {
		delete(s.m, key)
	} else {
		s.m[key] = value
	}
	if s.save == nil {
		return
	}
	if text, err := json.MarshalIndent(s.m, "", "  "); err == nil {
		_ = s.save(text)
	}
}

// Clear forgets everything, without saving that.
func (s *Store) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.m)
}

// Describe says how many choices the store holds, and which variants are not used, with the
// reason.
func (s *Store) Describe() (choices int, wrong []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, value := range s.m {
		switch {
		case value == "":
		case strings.Contains(key, variantInfix), strings.Contains(key, familyInfix):
			wrong = append(wrong, key+": "+value)
		default:
			choices++
		}
	}
	slices.Sort(wrong)
	return choices, wrong
}

// kernelsInfix stands before the hash of the kernels in every key of a store.
const kernelsInfix = ", kernels "

// What stands in the keys of a store that are not choices. Their value says why.
const (
	variantInfix = " variant " // the key is of a variant that must not be used
	familyInfix  = " family "  // the key is of a family (cudakernels.Families) that must not be used
)

// supersedes reports whether an entry under key makes the one under old out of date: both say the
// same thing, but old is about kernels that this program no longer has.
func supersedes(key, old string) bool {
	gpu, rest, ok := strings.Cut(key, kernelsInfix)
	oldGPU, oldRest, oldOK := strings.Cut(old, kernelsInfix)
	_, what, _ := strings.Cut(rest, ":")
	_, oldWhat, _ := strings.Cut(oldRest, ":")
	return ok && oldOK && key != old && gpu == oldGPU && what == oldWhat
}
