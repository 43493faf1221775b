package settings

import (
	"bytes"
	"strings"
	"testing"

	"github.com/quorate/quorate/cmd/internal/cli"
)

func show(t *testing.T, args ...string) (code int, out, err string) {
	t.Helper()
	o := options{GRPCAddr: ":7600", Token: "s3cret", Regions: map[string]int64{"eu": 1}}
	root := cli.Root("tool", "A tool", "")
	s := New(&o)
	s.env = func() []string { return nil }
	s.Attach(root)
	var stdout, stderr bytes.Buffer
	code = cli.Run(t.Context(), root, append([]string{"config", "show"}, args...), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

func TestConfigShowNamesTheOriginOfEachKey(t *testing.T) {
	code, out, stderr := show(t, "--origin", "--ttl", "5s")
	want := strings.TrimLeft(`
KEY        VALUE     ORIGIN
grpc_addr  :7600     default
peers      -         default
regions    eu=1      default
ttl        5s        flag --ttl
burst      0         default
retries    0         default
quiet      false     default
token      (secret)  default
redis      -         default
log_level  -         default
`, "\n")
	if code != cli.OK || out != want {
		t.Errorf("have %d\n%s%s\nwant\n%s", code, out, stderr, want)
	}
}

func TestConfigShowForPrograms(t *testing.T) {
	_, out, _ := show(t, "-o", "json")
	if !strings.Contains(out, `"key": "token",
      "value": "(secret)",
      "origin": "default",
      "env": "QUORATE_TOKEN"`) {
		t.Errorf("have %s", out)
	}
	_, out, _ = show(t, "-o", "yaml")
	if !strings.HasPrefix(out, "settings:\n  - key: grpc_addr\n    value: ':7600'\n    origin: default\n") &&
		!strings.HasPrefix(out, "settings:\n  - key: grpc_addr\n    value: :7600\n    origin: default\n") {
		t.Errorf("have %s", out)
	}
}

func TestConfigShowRefusesWhatTheBinaryWould(t *testing.T) {
	code, out, err := show(t, "--config", "/no/such/file")
	if code != cli.Usage || out != "" || !strings.Contains(err, "/no/such/file") {
		t.Errorf("have %d %q %q", code, out, err)
	}
}

func TestHelpNamesVariablesAndPrecedence(t *testing.T) {
	o := defaults()
	root := cli.Root("tool", "A tool", "Does things.")
	New(&o).Attach(root)
	var out bytes.Buffer
	cli.Run(t.Context(), root, []string{"--help"}, &out, &out)
	for _, want := range []string{"Does things.", "Settings come from flags, then the environment", "--grpc-addr string", "(env QUORATE_GRPC_ADDR)",
		`(default ":7600")`, "--token-file file", "QUORATE_TOKEN_FILE"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the help lacks %q:\n%s", want, out.String())
		}
	}
}
