package mask

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestArgs: secrets go, and nothing else does.
func TestArgs(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"train.py --hf-token hf_abcdefghijklmnopqrst", "train.py --hf-token ***"},
		{"train.py --hf-token=hf_abcdefghijklmnopqrst --lr 0.1", "train.py --hf-token=*** --lr 0.1"},
		{"train.py --api-key=abc", "train.py --api-key=***"},
		{"train.py --wandb_api_key 0123456789abcdef0123456789abcdef01234567", "train.py --wandb_api_key ***"},
		{"train.py --password hunter2 --epochs 3", "train.py --password *** --epochs 3"},
		{"train.py --db-passwd=x", "train.py --db-passwd=***"},
		{"train.py --data https://user:password@host/data?x=1", "train.py --data https://***@host/data?x=1"},
		{"train.py --data s3://AKIAIOSFODNN7EXAMPLE:wJalr@bucket/key", "train.py --data s3://***@bucket/key"},
		{"train.py --data=https://acc.blob.core.windows.net/c?sv=2020&sig=aB3dE5fG7hI9jK1lM3nO5p%3D&se=1", "train.py --data=https://acc.blob.core.windows.net/c?sv=2020&sig=***&se=1"},
		{"env HF_TOKEN=secret WANDB_API_KEY=1 python train.py", "env HF_TOKEN=*** WANDB_API_KEY=*** python train.py"},
		{"train.py hub.token=abc model.name=b", "train.py hub.token=*** model.name=b"},
		{"train.py --hubToken abc", "train.py --hubToken ***"},
		{"train.py sk-proj-abcdefghijklmnop1234", "train.py ***"},
		{"train.py --header Authorization:~Bearer~abcdef0123456789", "train.py --header Authorization:~Bearer~***"},
		{`train.py --config {"api_key":"xyz","lr":0.1}`, `train.py --config {"api_key":"***","lr":0.1}`},
		{"train.py ghp_abcdefghijklmnopqrstuvwxyz0123456789", "train.py ***"},
		{"train.py --key aB3dE5fG7hI9jK1lM3nO5p", "train.py --key ***"},
		{"train.py --auth eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-def", "train.py --auth ***"},

		{"train.py --max-tokens 512 --tokenizer gpt2", "train.py --max-tokens 512 --tokenizer gpt2"},
		{"train.py --pad-token <pad> --eos_token=</s>", "train.py --pad-token <pad> --eos_token=</s>"},
		{"train.py --key image --label-key=label", "train.py --key image --label-key=label"},
		{"train.py --author me --keyboard us --pass-through 1", "train.py --author me --keyboard us --pass-through 1"},
		{"train.py --password --verbose", "train.py --password --verbose"},
		{"train.py --data s3://bucket/train/0001.tar --workers=8", "train.py --data s3://bucket/train/0001.tar --workers=8"},
		{"train.py --tokens-per-batch=4096 seq:2048", "train.py --tokens-per-batch=4096 seq:2048"},
		{"train.py --sha=da39a3ee5e6b4b0d3255bfef95601890afd80709", "train.py --sha=da39a3ee5e6b4b0d3255bfef95601890afd80709"},
		{"python -m torch.distributed.run --rdzv-endpoint=localhost:29500", "python -m torch.distributed.run --rdzv-endpoint=localhost:29500"},
	} {
		args := strings.Split(c.in, " ") // ~ is a space within an argument
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "~", " ")
		}
		if got := strings.Join(Args(args), " "); got != strings.ReplaceAll(c.want, "~", " ") {
			t.Errorf("%s\nis    %s\nwant %s", c.in, got, c.want)
		}
	}
}

// TestArgsTwice: what is masked stays as it is when it is masked again, and the arguments given
// are not changed.
func TestArgsTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		args := rapid.SliceOf(rapid.StringMatching(`(--)?[a-z-]{0,12}(token|key|password|=|://|@|:)?[A-Za-z0-9/]{0,30}`)).Draw(t, "args")
		before := slices.Clone(args)
		once := Args(args)
		if !slices.Equal(args, before) || len(once) != len(args) {
			t.Fatalf("%q became %q", before, args)
		}
		if twice := Args(once); !slices.Equal(once, twice) {
			t.Fatalf("%q, again %q", once, twice)
		}
	})
}
