package source_test

import (
	"errors"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"

	"dev.gpustall/loader/source"
	"dev.gpustall/loader/source/sourcetest"
)

const (
	rootAzure = "azblob://" + sourcetest.Bucket
	rootABFSS = "abfss://" + sourcetest.Bucket + "@" + sourcetest.Account + ".dfs.core.windows.net"
)

// TestAzure: Azure's Blob Storage, in the form of Azurite, does what S3 does.
func TestAzure(t *testing.T) {
	s := sourcetest.NewAzure(t)
	t.Run("abfss", func(t *testing.T) { exercise(t, files(t, source.Options{}), rootABFSS+"/some where") })
	t.Run("faults", func(t *testing.T) { faults(t, s, rootAzure) })
	t.Run("changed", func(t *testing.T) { changed(t, rootAzure) })
	t.Run("commit", func(t *testing.T) { commit(t, s, rootAzure) })
	t.Run("folders", folders)
	t.Run("credentials", func(t *testing.T) { credentials(t, s) })
	t.Run("waited", func(t *testing.T) { waited(t, s, rootAzure) })
}

// folders checks that an empty blob that stands for a folder is a folder. Accounts with a
// hierarchical namespace have such blobs.
func folders(t *testing.T) {
	f := files(t, source.Options{})
	c, err := container.NewClientFromConnectionString(os.Getenv("AZURE_STORAGE_CONNECTION_STRING"), sourcetest.Bucket, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"hns", "hns/train"} {
		if _, err := c.NewBlockBlobClient(name).UploadBuffer(t.Context(), nil, &blockblob.UploadBufferOptions{Metadata: map[string]*string{"hdi_isfolder": to.Ptr("true")}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.WriteAll(t.Context(), rootABFSS+"/hns/train/x", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if e, err := f.Stat(t.Context(), rootABFSS+"/hns"); err != nil || !e.Dir {
		t.Errorf("%+v, %v", e, err)
	}
	if list, err := f.List(t.Context(), rootABFSS+"/hns"); err != nil || len(list) != 1 || list[0].Name != "train" || !list[0].Dir {
		t.Errorf("%+v, %v", list, err)
	}
}

// credentials checks that each kind of credentials in the environment works, and that no
// error shows wrong ones.
func credentials(t *testing.T, s *sourcetest.Server) {
	c, err := container.NewClientFromConnectionString(os.Getenv("AZURE_STORAGE_CONNECTION_STRING"), sourcetest.Bucket, nil)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := c.GetSASURL(sas.ContainerPermissions{Read: true, List: true}, time.Now().Add(time.Hour), nil)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(signed)
	if err != nil {
		t.Fatal(err)
	}
	wrong := strings.Replace(sourcetest.Key, "Eby8", "AAAA", 1)
	t.Setenv("AZURE_STORAGE_CONNECTION_STRING", "")
	t.Setenv("AZURE_STORAGE_ACCOUNT", sourcetest.Account)
	t.Setenv("AZURE_STORAGE_SERVICE_ENDPOINT", s.Azure()+"/")
	for _, c := range []struct {
		name, key, sas string
		works          bool
	}{
		{"key", sourcetest.Key, "", true}, {"signature", "", u.RawQuery, true}, {"signature as it is copied", "", "?" + u.RawQuery, true},
		{"wrong key", wrong, "", false}, {"no key", "hushhush!", "", false}, {"wrong signature", "", strings.Replace(u.RawQuery, "sig=", "sig=hushhush", 1), false},
	} {
		t.Setenv("AZURE_STORAGE_KEY", c.key)
		t.Setenv("AZURE_STORAGE_SAS_TOKEN", c.sas)
		_, err := files(t, source.Options{}).List(t.Context(), rootAzure)
		if c.works != (err == nil) {
			t.Errorf("%s: %v", c.name, err)
		}
		if err == nil {
			continue
		}
		if c.key != "hushhush!" && !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%s: %v", c.name, err)
		}
		for _, secret := range []string{"hushhush", wrong, sourcetest.Key, "sig="} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%s: %v", c.name, err)
			}
		}
	}
}
