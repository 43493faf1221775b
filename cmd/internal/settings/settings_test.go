package settings

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

type logOptions struct {
	Level string `key:"log_level" usage:"least severe messages to log"`
}

type options struct {
	GRPCAddr string           `key:"grpc_addr" usage:"address to serve gRPC on"`
	Peers    []string         `key:"peers" usage:"other nodes"`
	Regions  map[string]int64 `key:"regions" usage:"initial regions"`
	TTL      time.Duration    `key:"ttl" usage:"life of a session"`
	Burst    int64            `key:"burst" usage:"tokens at once"`
	Retries  int              `key:"retries" usage:"how often"`
	Quiet    bool             `key:"quiet" usage:"say less"`
	Token    string           `key:"token" secret:"true" usage:"operator token"`
	Redis    string           `key:"redis" secret:"url" usage:"URL of the region's Redis"`
	Log      logOptions
}

func defaults() options {
	return options{GRPCAddr: ":7600", TTL: 10 * time.Second, Log: logOptions{"info"}}
}

// load runs New, Bind, flag parsing and Load over the given file text (none if
// empty), environment and command line.
func load(t *testing.T, file string, env map[string]string, args ...string) (options, *Settings, error) {
	t.Helper()
	o := defaults()
	s := New(&o)
	s.env = func() []string {
		var list []string
		for _, k := range slices.Sorted(maps.Keys(env)) {
			list = append(list, k+"="+env[k])
		}
		return list
	}
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	s.Bind(flags)
	if file != "" {
		path := filepath.Join(t.TempDir(), "conf.yaml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--config", path)
	}
	if err := flags.Parse(args); err != nil {
		return o, s, err
	}
	return o, s, s.Load()
}

func (s *Settings) originOf(key string) string {
	for _, e := range s.Effective() {
		if e.Key == key {
			return e.Origin
		}
	}
	return ""
}

func TestPrecedence(t *testing.T) {
	const file = "grpc_addr: \":1\"\n"
	env := map[string]string{"QUORATE_GRPC_ADDR": ":2"}
	for _, c := range []struct {
		name, file string
		env        map[string]string
		args       []string
		want, from string
	}{
		{"nothing given leaves the default", "", nil, nil, ":7600", "default"},
		{"the file beats the default", file, nil, nil, ":1", "conf.yaml:1"},
		{"the environment beats the file", file, env, nil, ":2", "env QUORATE_GRPC_ADDR"},
		{"a flag beats the environment", file, env, []string{"--grpc-addr=:3"}, ":3", "flag --grpc-addr"},
		{"an empty flag is a value", file, env, []string{"--grpc-addr="}, "", "flag --grpc-addr"},
		{"an empty variable is none", file, map[string]string{"QUORATE_GRPC_ADDR": ""}, nil, ":1", "conf.yaml:1"},
		{"a flag that repeats the default still counts", file, nil, []string{"--grpc-addr=:7600"}, ":7600", "flag --grpc-addr"},
	} {
		o, s, err := load(t, c.file, c.env, c.args...)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if have := s.originOf("grpc_addr"); o.GRPCAddr != c.want || !strings.HasSuffix(have, c.from) {
			t.Errorf("%s: have %q from %q, want %q from %q", c.name, o.GRPCAddr, have, c.want, c.from)
		}
	}
}

func TestEveryTypeFromEveryPlace(t *testing.T) {
	file := `
peers: [a:1, "b:2"]
regions: {eu: 2, us: 1}
ttl: 1m
burst: 9007199254740991
retries: 3
quiet: true
log_level: debug
`
	env := map[string]string{
		"QUORATE_PEERS": "a:1, b:2", "QUORATE_REGIONS": "us=1,eu=2", "QUORATE_TTL": "60s", "QUORATE_BURST": "9007199254740991",
		"QUORATE_RETRIES": "3", "QUORATE_QUIET": "true", "QUORATE_LOG_LEVEL": "debug",
	}
	args := []string{"--peers=a:1", "--peers", "b:2", "--regions=eu=2", "--regions=us=1", "--ttl=1m", "--burst=9007199254740991",
		"--retries=3", "--quiet", "--log-level=debug"}
	for _, c := range []struct {
		name, file string
		env        map[string]string
		args       []string
	}{{"file", file, nil, nil}, {"environment", "", env, nil}, {"flags", "", nil, args}} {
		o, _, err := load(t, c.file, c.env, c.args...)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if !slices.Equal(o.Peers, []string{"a:1", "b:2"}) || !maps.Equal(o.Regions, map[string]int64{"eu": 2, "us": 1}) ||
			o.TTL != time.Minute || o.Burst != 1<<53-1 || o.Retries != 3 || !o.Quiet || o.Log.Level != "debug" {
			t.Errorf("%s: have %+v", c.name, o)
		}
	}
}

func TestAHigherPlaceReplacesListsWhole(t *testing.T) {
	o, _, err := load(t, "peers: [a, b]\nregions: {eu: 1}\n", map[string]string{"QUORATE_PEERS": "c"}, "--regions", "us=1")
	if err != nil || !slices.Equal(o.Peers, []string{"c"}) || !maps.Equal(o.Regions, map[string]int64{"us": 1}) {
		t.Errorf("have %v %v %v", o.Peers, o.Regions, err)
	}
}

func TestK39MistakesInTheFileAreNamedWithTheirPlace(t *testing.T) {
	for _, c := range []struct{ name, file, want string }{
		{"an unknown key with one nearby", "ttl: 1s\ngrpc_adr: x", `:2:1: unknown key "grpc_adr"; did you mean "grpc_addr"?`},
		{"an unknown key like no other", "colour: red", `:1:1: unknown key "colour"`},
		{"a repeated key", "ttl: 1s\nttl: 2s", `:2:1: key "ttl" is already in line 1, keep one`},
		{"a number is no duration", "ttl: 10", `:1:6: key ttl: want a duration like 250ms, 10s or 5m, have "10"`},
		{"a word is no number", "retries: 3O", `:1:10: key retries: want a whole number, have "3O"`},
		{"a fraction is no whole number", "retries: 1.5", `want a whole number, have "1.5"`},
		{"too large for the type", "burst: 9223372036854775808", `want a whole number`},
		{"yes is not true", "quiet: yes", `:1:8: key quiet: want true or false, have "yes"`},
		{"a list where one value belongs", "grpc_addr: [a]", `:1:12: key grpc_addr: want a single value`},
		{"a mapping where a list belongs", "peers: {a: b}", `:1:8: key peers: want a list like [a, b]`},
		{"a nested list", "peers: [[a]]", `:1:8: key peers: want a list like [a, b]`},
		{"a weight that is no number", "regions: {eu: heavy}", `:1:10: key regions: want name=number, have "eu=heavy"`},
		{"a key without a value", "grpc_addr:", `:1:11: key grpc_addr: has no value; remove the key to use the default`},
		{"not a mapping", "- a\n- b", `:1:1: want settings as`},
		{"two documents", "ttl: 1s\n---\nttl: 2s", `more than one YAML document`},
		{"broken YAML", "ttl: [", `conf.yaml: yaml: `},
		{"a secret twice over", "token: x\ntoken_file: y", `:2:1: token and token_file are both set, keep one`},
		{"a secret file that is not there", "token_file: /no/such/file", `:1:13: key token_file: open /no/such/file: no such file`},
	} {
		_, _, err := load(t, c.file, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s:\nhave %v\nwant %s", c.name, err, c.want)
		}
	}
}

func TestAllMistakesAtOnce(t *testing.T) {
	_, _, err := load(t, "ttl: 10\nretries: x\nnope: 1\n", map[string]string{"QUORATE_QUIET": "perhaps"})
	if have := strings.Count(err.Error(), "\n") + 1; have != 4 {
		t.Errorf("have %d problems, want 4:\n%v", have, err)
	}
}

func TestEmptyFilesAreFine(t *testing.T) {
	for _, file := range []string{"# nothing\n", "\n", "---\n", "~\n"} {
		if o, _, err := load(t, file, nil); err != nil || o.GRPCAddr != ":7600" {
			t.Errorf("%q: have %v, %v", file, o, err)
		}
	}
}

func TestMistakesInFlagsAndEnvironment(t *testing.T) {
	for _, c := range []struct {
		name string
		env  map[string]string
		args []string
		want string
	}{
		{"a flag of the wrong type", nil, []string{"--ttl=10"}, `--ttl" flag: want a duration`},
		{"a name twice over two flags", nil, []string{"--regions=eu=1", "--regions=eu=2"}, `--regions: "eu" is given twice`},
		{"a variable of the wrong type", map[string]string{"QUORATE_TTL": "10"}, nil, "environment variable QUORATE_TTL: want a duration"},
		{"a secret twice over", map[string]string{"QUORATE_TOKEN": "s3cret", "QUORATE_TOKEN_FILE": "/f"}, nil, "QUORATE_TOKEN and QUORATE_TOKEN_FILE are both set"},
		{"a secret is no flag", nil, []string{"--token=s3cret"}, "unknown flag: --token"},
		{"a file that is not there", map[string]string{"QUORATE_CONFIG": "/no/such/conf"}, nil, "/no/such/conf"},
	} {
		_, _, err := load(t, "", c.env, c.args...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s:\nhave %v\nwant %s", c.name, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: the error shows the secret: %v", c.name, err)
		}
	}
}

func TestAVariableNextToASettingIsWarnedAbout(t *testing.T) {
	_, s, err := load(t, "", map[string]string{"QUORATE_GPRC_ADDR": ":1", "QUORATE_COORDINATOR_SERVICE_HOST": "10.0.0.1"})
	want := []string{"environment variable QUORATE_GPRC_ADDR is not used; did you mean QUORATE_GRPC_ADDR?"}
	if err != nil || !slices.Equal(s.Warnings(), want) {
		t.Errorf("have %q %v, want %q", s.Warnings(), err, want)
	}
}

func TestSecretsComeFromFilesAndAreNeverShown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o, s, err := load(t, "", map[string]string{"QUORATE_TOKEN_FILE": path, "QUORATE_REDIS": "redis://me:s3cret@r:6379/1"})
	if err != nil || o.Token != "s3cret" {
		t.Fatalf("have token %q, error %v", o.Token, err)
	}
	for _, e := range s.Effective() {
		if text, _ := e.Value.(string); strings.Contains(text+e.text+e.Origin, "s3cret") {
			t.Errorf("%s shows the secret: %+v", e.Key, e)
		}
	}
	if have, want := s.originOf("token"), "file "+path+" (env QUORATE_TOKEN_FILE)"; have != want {
		t.Errorf("have origin %q, want %q", have, want)
	}
	if o, _, err = load(t, "token: fromfile\n", nil, "--token-file", path); err != nil || o.Token != "s3cret" {
		t.Errorf("a flag naming a file beats the file: have %q %v", o.Token, err)
	}
}

func TestRedact(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"user and password", "redis://me:pw@host:6379/0", "redis://me:(secret)@host:6379/0"},
		{"password alone", "redis://:pw@host", "redis://:(secret)@host"},
		{"an at sign in the password", "redis://:p@w@host", "redis://:(secret)@host"},
		{"not a URL that parses", "redis://:p%zz@host", "redis://:(secret)@host"},
		{"no password", "redis://me@host", "redis://me@host"},
		{"no user", "redis://host:6379", "redis://host:6379"},
		{"no URL", "embedded", "embedded"},
	} {
		if have := Redact(c.text); have != c.want {
			t.Errorf("%s: have %q, want %q", c.name, have, c.want)
		}
	}
}

func TestWhatCannotBeDescribedPanics(t *testing.T) {
	for name, target := range map[string]any{
		"an unsupported type": &struct {
			X float64 `key:"x"`
		}{},
		"a key twice": &struct {
			A string `key:"x"`
			B string `key:"x"`
		}{},
		"a key that a secret's file has": &struct {
			A string `key:"x" secret:"true"`
			B string `key:"x_file"`
		}{},
		"an unknown secrecy": &struct {
			A string `key:"x" secret:"very"`
		}{},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			New(target)
		}()
	}
}
