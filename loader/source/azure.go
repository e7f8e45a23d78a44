package source

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"dev.gpustall/engine/base/errs"
)

// azureStore is a container of Azure's Blob Storage.
type azureStore struct{ client *container.Client }

const hintAzure = "set AZURE_STORAGE_ACCOUNT and one of AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN and AZURE_STORAGE_CONNECTION_STRING, or log in (az login)"

// Environment variables that Azure's own tools use.
const (
	envConnection = "AZURE_STORAGE_CONNECTION_STRING"
	envAccount    = "AZURE_STORAGE_ACCOUNT"
	envKey        = "AZURE_STORAGE_KEY"
	envSAS        = "AZURE_STORAGE_SAS_TOKEN"
	envEndpoint   = "AZURE_STORAGE_SERVICE_ENDPOINT" // of clouds and networks that have another
)

// newAzure takes credentials from the environment, as the az tool does. Otherwise it takes
// those of the logged-in user, by azidentity's chain. It ignores credentials of another account
// than the address names.
func newAzure(client *http.Client, a address) (store, error) {
	o := &container.ClientOptions{ClientOptions: policy.ClientOptions{
		Transport: client, Retry: policy.RetryOptions{MaxRetries: -1}, Telemetry: policy.TelemetryOptions{Disabled: true},
	}}
	bad := func() error { return errs.Reason("its credentials cannot be used", hintAzure) } // the client's error may quote them
	if text := os.Getenv(envConnection); text != "" && (a.account == "" || a.account == accountIn(text)) {
		c, err := container.NewClientFromConnectionString(text, a.bucket, o)
		if err != nil {
			return nil, bad()
		}
		return &azureStore{c}, nil
	}
	account := os.Getenv(envAccount)
	ours := a.account == "" || a.account == account
	if a.account != "" {
		account = a.account
	}
	if account == "" {
		return nil, errs.Reason("the account is not known", hintAzure)
	}
	url := fmt.Sprintf("https://%s.blob.core.windows.net", account)
	if endpoint := os.Getenv(envEndpoint); endpoint != "" && ours {
		url = strings.TrimRight(endpoint, "/")
	}
	url += "/" + a.bucket
	if key := os.Getenv(envKey); key != "" && ours {
		cred, err := container.NewSharedKeyCredential(account, key)
		if err != nil {
			return nil, bad()
		}
		c, err := container.NewClientWithSharedKeyCredential(url, cred, o)
		if err != nil {
			return nil, bad()
		}
		return &azureStore{c}, nil
	}
	if sas := os.Getenv(envSAS); sas != "" && ours {
		c, err := container.NewClientWithNoCredential(url+"?"+strings.TrimPrefix(sas, "?"), o)
		if err != nil {
			return nil, bad()
		}
		return &azureStore{c}, nil
	}
	cred, err := azidentity.NewDefaultAzureCredential(nil)
	if err != nil {
		return nil, errs.Reason("no credentials were found", hintAzure)
	}
	c, err := container.NewClient(url, cred, o)
	if err != nil {
		return nil, bad()
	}
	return &azureStore{c}, nil
}

// accountIn returns the account that a connection string names.
func accountIn(connection string) string {
	for _, part := range strings.Split(connection, ";") {
		if name, ok := strings.CutPrefix(part, "AccountName="); ok {
			return name
		}
	}
	return ""
}

// known translates an error of the client into our words.
func (*azureStore) known(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*azcore.ResponseError](err); ok {
		return &failure{status: e.StatusCode, code: e.ErrorCode}
	}
	var refused *azidentity.AuthenticationFailedError
	if errors.As(err, &refused) || strings.Contains(err.Error(), "DefaultAzureCredential") {
		return errs.Reason("no credentials were found that work", hintAzure)
	}
	return err
}

func (s *azureStore) blob(key string) *blockblob.Client { return s.client.NewBlockBlobClient(key) }

// folderMark is in the metadata of an empty blob that stands for a folder. Accounts with
// folders of their own (hierarchical namespace, abfss) have one for each, and so do some tools.
const folderMark = "hdi_isfolder"

func (s *azureStore) head(ctx context.Context, key string) (Entry, error) {
	out, err := s.blob(key).GetProperties(ctx, nil)
	if err != nil {
		return Entry{}, s.known(err)
	}
	for name, value := range out.Metadata {
		if strings.EqualFold(name, folderMark) && strings.EqualFold(deref(value), "true") {
			return Entry{}, &failure{status: http.StatusNotFound}
		}
	}
	return entryOfBlob("", out.ContentLength, out.LastModified, out.ETag), nil
}

func (s *azureStore) page(ctx context.Context, prefix, token string, flat bool) (entries []Entry, next string, err error) {
	var marker *string
	if token != "" {
		marker = &token
	}
	add := func(items []*container.BlobItem) {
		for _, i := range items {
			entries = append(entries, entryOfBlob(*i.Name, i.Properties.ContentLength, i.Properties.LastModified, i.Properties.ETag))
		}
	}
	if flat {
		out, err := s.client.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{Prefix: &prefix, Marker: marker}).NextPage(ctx)
		if err != nil {
			return nil, "", s.known(err)
		}
		add(out.Segment.BlobItems)
		return entries, deref(out.NextMarker), nil
	}
	out, err := s.client.NewListBlobsHierarchyPager("/", &container.ListBlobsHierarchyOptions{Prefix: &prefix, Marker: marker}).NextPage(ctx)
	if err != nil {
		return nil, "", s.known(err)
	}
	folders := map[string]bool{}
	for _, p := range out.Segment.BlobPrefixes {
		entries = append(entries, Entry{Name: *p.Name, Dir: true})
		folders[*p.Name] = true
	}
	add(slices.DeleteFunc(out.Segment.BlobItems, func(i *container.BlobItem) bool {
		return deref(i.Properties.ContentLength) == 0 && folders[*i.Name+"/"] // it stands for that folder
	}))
	return entries, deref(out.NextMarker), nil
}

func (s *azureStore) get(ctx context.Context, key string, off, n int64, version string) (io.ReadCloser, error) {
	if n == 0 {
		return http.NoBody, nil
	}
	o := &blob.DownloadStreamOptions{Range: blob.HTTPRange{Offset: off, Count: n}}
	if version != "" {
		tag := azcore.ETag(version)
		o.AccessConditions = &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfMatch: &tag}}
	}
	out, err := s.blob(key).DownloadStream(ctx, o)
	if err != nil {
		return nil, s.known(err)
	}
	return out.Body, nil
}

func body(b []byte) io.ReadSeekCloser { return streaming.NopCloser(bytes.NewReader(b)) }

func (s *azureStore) put(ctx context.Context, key string, b []byte) error {
	_, err := s.blob(key).Upload(ctx, body(b), &blockblob.UploadOptions{TransactionalValidation: blob.TransferValidationTypeMD5(md5Of(b))})
	return s.known(err)
}

// begin makes no request: the blocks of a new blob belong to nothing until they are committed.
func (s *azureStore) begin(context.Context, string) (string, error) { return "blocks", nil }

func (s *azureStore) part(ctx context.Context, key, _ string, n int, b []byte) (string, error) {
	id := base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%08d", n))
	_, err := s.blob(key).StageBlock(ctx, id, body(b), &blockblob.StageBlockOptions{TransactionalValidation: blob.TransferValidationTypeMD5(md5Of(b))})
	return id, s.known(err)
}

func (s *azureStore) commit(ctx context.Context, key, _ string, tags []string) error {
	_, err := s.blob(key).CommitBlockList(ctx, tags, nil)
	return s.known(err)
}

// abort leaves the blocks to Azure, which forgets them after a week.
func (s *azureStore) abort(context.Context, string, string) error { return nil }

func (s *azureStore) remove(ctx context.Context, key string) error {
	_, err := s.blob(key).Delete(ctx, nil)
	return s.known(err)
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

func entryOfBlob(name string, size *int64, changed *time.Time, tag *azcore.ETag) Entry {
	return Entry{Name: name, Size: deref(size), Changed: deref(changed), Version: string(deref(tag))}
}
