package sourcetest

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
)

// These are Azurite's only account, with the key that its authors publish, and the place below
// the user's cache folder where .ci/install puts Azurite.
const (
	Account     = "devstoreaccount1"
	Key         = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
	azuritePath = "gpustall-tools/azurite-3.35.0/node_modules/azurite/dist/src/blob/main.js"
)

// startAzurite ends when its input does, so it ends with the test's process in any case.
const startAzurite = `process.stdin.on("end", () => process.exit()).resume(); require(process.argv[1])`

// NewAzure starts Azurite, which speaks Azure's Blob Storage protocol, with an empty container
// behind a proxy that can fail. It sets the test's environment variables for it and its key. If
// Azurite is not installed it skips the test.
func NewAzure(t testing.TB) *Server {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skip("skipped: there is no cache folder in which Azurite could be")
	}
	main := filepath.Join(cache, azuritePath)
	node, err := exec.LookPath("node")
	if err == nil {
		_, err = os.Stat(main)
	}
	if err != nil {
		t.Skipf("skipped: Azurite is not installed (%v); .ci/install does that where npm is", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, node, "-e", startAzurite, main, "--inMemoryPersistence", "--blobPort", "0", "--disableTelemetry", "--silent", "--skipApiVersionCheck")
	cmd.Dir, cmd.Stderr = t.TempDir(), os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = in.Close()
		_ = cmd.Wait() // it was killed
	})
	var said strings.Builder
	var at *url.URL
	for lines := bufio.NewScanner(out); at == nil; {
		if !lines.Scan() {
			t.Fatalf("Azurite did not start: %s", said.String())
		}
		fmt.Fprintln(&said, lines.Text())
		if _, address, ok := strings.Cut(lines.Text(), "listens on "); ok {
			if at, err = url.Parse(strings.TrimSpace(address)); err != nil {
				t.Fatal(err)
			}
		}
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	s := &Server{handler: &httputil.ReverseProxy{
		Transport: transport,
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(at) },
		ErrorLog:  log.New(io.Discard, "", 0), // of clients that go
	}}
	s.Start(t)
	t.Cleanup(s.Stop)
	connection := fmt.Sprintf("DefaultEndpointsProtocol=http;AccountName=%s;AccountKey=%s;BlobEndpoint=%s;", Account, Key, s.Azure())
	for name, value := range map[string]string{
		"AZURE_STORAGE_CONNECTION_STRING": connection, "AZURE_STORAGE_ACCOUNT": "", "AZURE_STORAGE_KEY": "", "AZURE_STORAGE_SAS_TOKEN": "", "AZURE_STORAGE_SERVICE_ENDPOINT": "",
	} {
		t.Setenv(name, value)
	}
	c, err := container.NewClientFromConnectionString(connection, Bucket, nil)
	if err != nil {
		t.Fatal(err)
	}
	within, done := context.WithTimeout(ctx, time.Minute)
	defer done()
	if _, err := c.Create(within, nil); err != nil {
		t.Fatal(cmp.Or(context.Cause(within), err))
	}
	return s
}

// Azure returns the address of the account.
func (s *Server) Azure() string { return "http://" + s.addr + "/" + Account }
