package source

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"dev.gpustall/engine/base/errs"
)

// s3Store is a bucket of S3, or of a compatible store that AWS_ENDPOINT_URL names.
type s3Store struct {
	client *s3.Client
	bucket *string
}

const hintS3 = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile (aws configure, AWS_PROFILE)"

func newS3(client *http.Client, a address) (store, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := config.LoadDefaultConfig(ctx, config.WithLogger(logging.Nop{})) // errors say all that is needed
	if err != nil {
		return nil, errs.Reason("the settings of AWS cannot be read: "+err.Error(), "check AWS_PROFILE, ~/.aws/config and ~/.aws/credentials")
	}
	if c.Region == "" {
		c.Region = "us-east-1"
	}
	return &s3Store{s3.NewFromConfig(c, func(o *s3.Options) {
		o.HTTPClient = client
		o.Retryer = aws.NopRetryer{}
		o.UsePathStyle = o.BaseEndpoint != nil // other stores seldom have a host name for each bucket
		o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
	}), &a.bucket}, nil
}

// known translates an error of the client into our words.
func (*s3Store) known(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*v4.SigningError](err); ok || strings.Contains(err.Error(), "get identity") {
		return errs.Reason("no credentials were found that work", hintS3)
	}
	f := &failure{}
	if e, ok := errors.AsType[smithy.APIError](err); ok {
		f.code = e.ErrorCode()
	}
	if e, ok := errors.AsType[*smithyhttp.ResponseError](err); ok && e.Response != nil {
		f.status = e.HTTPStatusCode()
	}
	if f.status == 0 || f.status < 300 { // no answer, or an interrupted one
		if e, ok := errors.AsType[*smithyhttp.RequestSendError](err); ok {
			return e.Err
		}
		return err
	}
	return f
}

func (s *s3Store) head(ctx context.Context, key string) (Entry, error) {
	out, err := s.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: s.bucket, Key: &key})
	if err != nil {
		return Entry{}, s.told(ctx, key, s.known(err))
	}
	return Entry{Size: aws.ToInt64(out.ContentLength), Changed: aws.ToTime(out.LastModified), Version: aws.ToString(out.ETag)}, nil
}

// told returns the error of a HEAD with the store's own code. The answer to a HEAD has no body, so
// its error only has the status in words. The error of a GET has the code.
func (s *s3Store) told(ctx context.Context, key string, err error) error {
	f, ok := errors.AsType[*failure](err)
	if !ok || f.status >= 500 || f.status == http.StatusNotFound {
		return err
	}
	body, again := s.get(ctx, key, 0, 1, "")
	if again == nil {
		_ = body.Close() // it is not read
		return err
	}
	if g, ok := errors.AsType[*failure](again); ok && g.status == f.status {
		return g
	}
	return err
}

func (s *s3Store) page(ctx context.Context, prefix, token string, flat bool) (entries []Entry, next string, err error) {
	in := &s3.ListObjectsV2Input{Bucket: s.bucket, Prefix: &prefix}
	if token != "" {
		in.ContinuationToken = &token
	}
	if !flat {
		in.Delimiter = aws.String("/")
	}
	out, err := s.client.ListObjectsV2(ctx, in)
	if err != nil {
		return nil, "", s.known(err)
	}
	for _, p := range out.CommonPrefixes {
		entries = append(entries, Entry{Name: aws.ToString(p.Prefix), Dir: true})
	}
	for _, o := range out.Contents {
		entries = append(entries, Entry{Name: aws.ToString(o.Key), Size: aws.ToInt64(o.Size), Changed: aws.ToTime(o.LastModified), Version: aws.ToString(o.ETag)})
	}
	return entries, aws.ToString(out.NextContinuationToken), nil
}

func (s *s3Store) get(ctx context.Context, key string, off, n int64, version string) (io.ReadCloser, error) {
	if n == 0 {
		return http.NoBody, nil
	}
	in := &s3.GetObjectInput{Bucket: s.bucket, Key: &key, Range: aws.String(fmt.Sprintf("bytes=%d-%d", off, off+n-1))}
	if version != "" {
		in.IfMatch = &version
	}
	out, err := s.client.GetObject(ctx, in)
	if err != nil {
		return nil, s.known(err)
	}
	if version != "" && aws.ToString(out.ETag) != version { // the server ignores If-Match
		_ = out.Body.Close() // it is not read
		return nil, ErrChanged
	}
	return out.Body, nil
}

// sum returns md5Of in the form that S3 takes.
func sum(b []byte) *string { return aws.String(base64.StdEncoding.EncodeToString(md5Of(b))) }

func (s *s3Store) put(ctx context.Context, key string, b []byte) error {
	_, err := s.client.PutObject(ctx, &s3.PutObjectInput{Bucket: s.bucket, Key: &key, Body: bytes.NewReader(b), ContentMD5: sum(b)})
	return s.known(err)
}

func (s *s3Store) begin(ctx context.Context, key string) (string, error) {
	out, err := s.client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: s.bucket, Key: &key})
	if err != nil {
		return "", s.known(err)
	}
	return aws.ToString(out.UploadId), nil
}

func (s *s3Store) part(ctx context.Context, key, upload string, n int, b []byte) (string, error) {
	out, err := s.client.UploadPart(ctx, &s3.UploadPartInput{
		Bucket: s.bucket, Key: &key, UploadId: &upload, PartNumber: aws.Int32(int32(n)), Body: bytes.NewReader(b), ContentMD5: sum(b),
	})
	if err != nil {
		return "", s.known(err)
	}
	return aws.ToString(out.ETag), nil
}

func (s *s3Store) commit(ctx context.Context, key, upload string, tags []string) error {
	parts := make([]types.CompletedPart, len(tags))
	for i := range tags {
		parts[i] = types.CompletedPart{ETag: &tags[i], PartNumber: aws.Int32(int32(i + 1))}
	}
	_, err := s.client.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
		Bucket: s.bucket, Key: &key, UploadId: &upload, MultipartUpload: &types.CompletedMultipartUpload{Parts: parts},
	})
	return s.known(err)
}

func (s *s3Store) abort(ctx context.Context, key, upload string) error {
	_, err := s.client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: s.bucket, Key: &key, UploadId: &upload})
	return s.known(err)
}

func (s *s3Store) remove(ctx context.Context, key string) error {
	_, err := s.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: s.bucket, Key: &key})
	return s.known(err)
}
