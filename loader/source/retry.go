package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"dev.gpustall/engine/base/errs"
)

// Retry says how often a request is made, and how long its answer may take.
type Retry struct {
	Attempts int           // in all; 0 is 10
	First    time.Duration // the pause after the first; 0 is 100 ms. It doubles each time, up to 5 s
	Silence  time.Duration // without an answer, or without a byte of it; 0 is 20 s
}

const maxPause = 5 * time.Second

func (r Retry) attempts() int {
	if r.Attempts > 0 {
		return r.Attempts
	}
	return 10 // with the pauses, 11 to 21 s without a store: a restart or a failover
}

// pause returns how long to wait after so many attempts. Half of it is random, so that workers
// that failed together do not come back together.
func (r Retry) pause(attempt int) time.Duration {
	d := r.First
	if d <= 0 {
		d = 100 * time.Millisecond
	}
	d = min(d<<min(attempt, 16), maxPause)
	return d/2 + rand.N(d/2+1)
}

func (r Retry) silence() time.Duration {
	if r.Silence > 0 {
		return r.Silence
	}
	return 20 * time.Second
}

// newClient returns the client for requests. It does not retry, and has as many connections as
// there are requests.
func newClient(r Retry, n *counts) *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone() // it is one
	t.MaxIdleConns, t.MaxIdleConnsPerHost = 0, 256
	t.DisableCompression = true // bytes are wanted as they are stored
	t.ResponseHeaderTimeout = r.silence()
	t.DialContext = (&net.Dialer{Timeout: r.silence(), KeepAlive: 30 * time.Second}).DialContext
	return &http.Client{Transport: &counted{t, n}}
}

// counted counts the requests that http.Transport repeats by itself, on a connection that turns
// out to be closed.
type counted struct {
	*http.Transport
	n *counts
}

func (c *counted) RoundTrip(r *http.Request) (*http.Response, error) {
	connections := 0
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		if connections++; connections > 1 {
			c.n.requests.Add(1)
			c.n.retries.Add(1)
		}
	}}
	return c.Transport.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
}

// failure is a store's answer that a request failed.
type failure struct {
	status  int
	code    string // the service's name for the error
	message string
}

func (f *failure) Error() string {
	s := fmt.Sprintf("the store answered %d", f.status)
	if f.code != "" {
		s += " " + f.code
	}
	if f.message != "" {
		s += " (" + f.message + ")"
	}
	return s
}

// Is lets errors.Is find the usual errors in a failure.
func (f *failure) Is(target error) bool {
	switch f.status {
	case http.StatusNotFound:
		return target == fs.ErrNotExist
	case http.StatusForbidden, http.StatusUnauthorized:
		return target == fs.ErrPermission
	case http.StatusPreconditionFailed:
		return target == ErrChanged
	}
	return false
}

// mends says what to do about the errors for which a store has a code of its own.
var mends = map[string]string{
	"AccessDenied":                       "the credentials are valid and may not do this: it takes s3:ListBucket, s3:GetObject and, to write, s3:PutObject; a wrong bucket name says the same",
	"ExpiredToken":                       renew,
	"TokenRefreshRequired":               renew,
	"InvalidToken":                       "AWS_SESSION_TOKEN does not belong to the access key: set all three of one login, or leave the token out",
	"InvalidAccessKeyId":                 "the store does not know this access key: check AWS_ACCESS_KEY_ID, and AWS_ENDPOINT_URL where it is not of AWS",
	"SignatureDoesNotMatch":              "the secret key does not fit the access key: check AWS_SECRET_ACCESS_KEY",
	"RequestTimeTooSkewed":               "this machine's clock is wrong: set it",
	"PermanentRedirect":                  region,
	"AuthorizationHeaderMalformed":       region,
	"IllegalLocationConstraintException": region,
	"AccountIsDisabled":                  "the account is disabled: ask who owns it",
	"NoSuchBucket":                       "check the bucket's name, and AWS_ENDPOINT_URL where it is not of AWS",
	"ContainerNotFound":                  "check the account's and the container's name",
	"InvalidObjectState":                 "the object is in an archive: restore it first",
	"AuthenticationFailed":               "the key or the SAS token is wrong or has expired, or this machine's clock is: make a new token, or check AZURE_STORAGE_KEY",
	"NoAuthenticationInformation":        hintAzure,
	"PublicAccessNotPermitted":           hintAzure,
	"AuthorizationFailure":               "the account's firewall refuses this machine, or the SAS token grants too little: allow its address, or make a token that may read and list",
	"AuthorizationPermissionMismatch":    "the login may not do this: it takes the role Storage Blob Data Reader and, to write, Storage Blob Data Contributor; of a SAS token the rights to read and list",
	"BlobArchived":                       "the blob is in the archive tier: rehydrate it first",
	"RequestLimitExceeded":               slower,
	"SlowDown":                           slower,
	"ServerBusy":                         slower,
}

const (
	renew  = "the login has expired: log in again (aws sso login), or set a new AWS_SESSION_TOKEN with its keys"
	region = "the bucket is in another region: set AWS_REGION to its own, which aws s3api get-bucket-location tells"
	slower = "the store is busy or asks for fewer requests: lower num_workers or reads_in_flight, or read larger objects"
)

// ErrChanged is what the error of reading an object wraps if the object has changed since it
// was opened.
var ErrChanged = errors.New("it has changed since the run began")

// errSilent is the error of a body that stops for too long.
var errSilent = errors.New("the store sends nothing more")

// passing reports whether another attempt may succeed: there was no answer, or the answer says
// so.
func passing(err error) bool {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.status == http.StatusRequestTimeout || f.code == "RequestTimeout" || f.status == http.StatusTooManyRequests || f.status >= 500 && f.status != http.StatusNotImplemented
	}
	var known *errs.Error
	return !errors.As(err, &known) && !errors.Is(err, ErrChanged)
}

// counts holds the numbers behind Counts.
type counts struct {
	requests, retries, read, written, cached atomic.Int64
}

// Counts says what was requested of stores so far, and what came.
type Counts struct {
	Requests int64 // attempts included
	Retries  int64 // requests that were made again
	Read     int64 // bytes that came from stores
	Written  int64 // bytes that went there
	Cached   int64 // bytes that came from the cache instead
}

// Counts returns the counts so far.
func (f *Files) Counts() Counts {
	if f == nil {
		return Counts{}
	}
	c := &f.counts
	return Counts{c.requests.Load(), c.retries.Load(), c.read.Load(), c.written.Load(), c.cached.Load()}
}

// retry makes a request until it succeeds, until its error is permanent, or as often as Options
// say. If a request makes progress, its attempts are counted from zero again.
func (b *bucket) retry(ctx context.Context, op string, a address, request func(ctx context.Context) (further bool, err error)) error {
	r := b.files.options.Retry
	for attempt := 1; ; attempt++ {
		b.files.counts.requests.Add(1)
		further, err := request(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if further {
			attempt = 1
		}
		if !passing(err) {
			return blame(err, op, a.String())
		}
		if attempt >= r.attempts() {
			return given(fmt.Sprintf(", %d times in a row", attempt), err, op, a.String())
		}
		b.files.counts.retries.Add(1)
		t := time.NewTimer(r.pause(attempt - 1))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return context.Cause(ctx)
		}
	}
}

// plain removes the request's address from an error, because the address may hold a
// signature.
func plain(err error) error {
	if e, ok := errors.AsType[*failure](err); ok {
		return e
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	if e, ok := errors.AsType[*net.OpError](err); ok {
		return fmt.Errorf("%s: %w", e.Op, e.Err)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return errShort
	}
	return err
}

var errShort = fmt.Errorf("the connection was closed before the answer was whole: %w", io.ErrUnexpectedEOF)

// blame returns a store's error in the form of all errors.
func blame(err error, op, where string) error { return given("", err, op, where) }

// given does what blame does, with a text after the reason.
func given(behind string, err error, op, where string) error {
	if e, ok := errs.As(err); ok && e.Reason != "" {
		if e.Object != "" {
			return err
		}
		return errs.New(op, where, e.Reason, e.Hint).Because(err)
	}
	err = plain(err)
	hint := "check the network and the store; on_error=skip goes on without what cannot be read"
	reason := err.Error()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		reason, hint = "there is no such object or bucket", "check the address, and the account or region that it is in"
	case errors.Is(err, fs.ErrPermission):
		hint = "check the credentials and what they may do, with the service's own tool"
	case errors.Is(err, ErrChanged):
		reason, hint = ErrChanged.Error(), "start again"
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		hint = ""
	}
	if f, ok := errors.AsType[*failure](err); ok {
		if mend := mends[f.code]; mend != "" {
			reason, hint = err.Error(), mend
		} else if f.status == http.StatusTooManyRequests || f.status == http.StatusServiceUnavailable {
			hint = slower
		}
	}
	return errs.New(op, where, reason+behind, hint).Because(err)
}
