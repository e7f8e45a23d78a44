// Package mask takes secrets out of a command line before it is written to a file that people
// share: tokens, keys, passwords and the user part of a URL. A secret is known by the name of
// its flag or by its shape. What is masked reads ***.
package mask

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// Hidden stands where a secret was.
const Hidden = "***"

// Args returns a copy of a command line without its secrets.
func Args(args []string) []string {
	out := slices.Clone(args)
	for i := range out {
		if i > 0 && takesSecret(args[i-1]) && !strings.HasPrefix(args[i], "--") {
			if flag := strings.TrimLeft(args[i-1], "-"); certain(flag) || random(args[i]) {
				out[i] = Hidden
				continue
			}
		}
		out[i] = Text(args[i])
	}
	return out
}

// takesSecret reports whether an argument is a flag whose value, the next argument, may be a
// secret.
func takesSecret(arg string) bool {
	return strings.HasPrefix(arg, "-") && !strings.ContainsAny(arg, "= ") && suspicious(strings.TrimLeft(arg, "-"))
}

// lazily compiles a pattern when it is first used: most commands mask nothing.
func lazily(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

// A pair is a name and its value: --hf-token=..., HF_TOKEN=..., "api_key": "...", ?sig=...
var pair = lazily(`([A-Za-z][A-Za-z0-9_.\-]*)(["']?\s*[=:]\s*["']?)([^\s"'&,;{}\[\]]+)`)

// user is the part of a URL that names a user, and mostly has a password.
var user = lazily(`([a-z][a-z0-9+.\-]*://)[^/\s@"']+@`)

// bearer is a header that carries a secret.
var bearer = lazily(`(?i)\b(bearer|basic|token)(\s+)([A-Za-z0-9._~+/\-]{12,}=*)`)

// shapes are secrets that say by themselves what they are.
var shapes = lazily(`\b(` + strings.Join([]string{
	`hf_[A-Za-z0-9]{16,}`,                                        // Hugging Face
	`sk-[A-Za-z0-9_\-]{16,}`,                                     // OpenAI and others
	`gh[pousr]_[A-Za-z0-9]{20,}`,                                 // GitHub
	`github_pat_[A-Za-z0-9_]{20,}`,                               //
	`glpat-[A-Za-z0-9_\-]{16,}`,                                  // GitLab
	`(?:AKIA|ASIA)[0-9A-Z]{16}`,                                  // AWS: the id of a key
	`AIza[A-Za-z0-9_\-]{30,}`,                                    // Google
	`ya29\.[A-Za-z0-9_\-]{20,}`,                                  //
	`xox[abeoprs]-[A-Za-z0-9\-]{10,}`,                            // Slack
	`eyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]*`, // a JSON web token
	`pypi-[A-Za-z0-9_\-]{16,}`,
	`npm_[A-Za-z0-9]{20,}`,
	`dckr_pat_[A-Za-z0-9_\-]{16,}`,
	`nvapi-[A-Za-z0-9_\-]{16,}`,
}, "|") + `)`)

// Text returns a text without its secrets.
func Text(text string) string {
	text = user().ReplaceAllString(text, "${1}"+Hidden+"@")
	text = bearer().ReplaceAllString(text, "${1}${2}"+Hidden)
	text = shapes().ReplaceAllString(text, Hidden)
	return pair().ReplaceAllStringFunc(text, func(found string) string {
		m := pair().FindStringSubmatch(found)
		name, sign, value := m[1], m[2], m[3]
		if strings.HasPrefix(value, "//") || !certain(name) && !(suspicious(name) && random(value)) {
			return name + sign + Text(value)
		}
		return name + sign + Hidden
	})
}

// words returns the words of a name: hf-token, HF_TOKEN and hfToken are hf and token.
func words(name string) []string {
	var out []string
	var word []rune
	flush := func() {
		if len(word) > 0 {
			out = append(out, strings.ToLower(string(word)))
			word = word[:0]
		}
	}
	var before rune
	for _, r := range name {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			flush()
		} else {
			if unicode.IsUpper(r) && unicode.IsLower(before) {
				flush()
			}
			word = append(word, r)
		}
		before = r
	}
	flush()
	return out
}

// certain reports whether the value of a name is a secret whatever it looks like.
func certain(name string) bool {
	w := words(name)
	if len(w) == 0 {
		return false
	}
	before := ""
	if len(w) > 1 {
		before = w[len(w)-2]
	}
	switch last := w[len(w)-1]; last {
	case "password", "passwd", "passphrase", "pwd", "pass", "secret", "secrets", "apikey", "credential", "credentials", "signature", "passcode":
		return true
	case "token":
		return !slices.Contains(textTokens, before)
	case "key":
		return slices.Contains(secretKeys, before)
	}
	return false
}

// textTokens come before "token" in names of tokens of text: --pad-token.
var textTokens = []string{"pad", "eos", "bos", "unk", "sep", "cls", "mask", "special", "image", "video", "audio", "start", "end", "stop", "begin", "per", "next", "last", "first", "new", "max", "min", "decoder", "forced", "prefix", "placeholder", "trigger"}

// secretKeys come before "key" in names of keys that give access: --api-key.
var secretKeys = []string{"api", "access", "secret", "private", "account", "storage", "encryption", "signing", "ssh", "auth", "wandb", "comet", "neptune", "openai", "anthropic", "license", "shared", "master", "subscription"}

// suspicious reports whether the value of a name is a secret if it also looks like one.
func suspicious(name string) bool {
	return certain(name) || slices.ContainsFunc(words(name), func(w string) bool {
		return slices.Contains([]string{"key", "token", "auth", "secret", "password", "sig", "sas", "cookie", "webhook", "login", "code"}, w)
	})
}

// random reports whether a value looks drawn at random: long, of letters and digits, no path.
func random(value string) bool {
	if len(value) < 16 || strings.ContainsAny(value, "/\\ ") && !strings.HasSuffix(value, "=") {
		return false
	}
	letters, digits := 0, 0
	for _, r := range value {
		switch {
		case unicode.IsLetter(r):
			letters++
		case unicode.IsDigit(r):
			digits++
		}
	}
	return letters >= 4 && digits >= 3
}
