package settings

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const envPrefix = "QUORATE_"

// Precedence is the sentence that the help of every binary ends with.
const Precedence = "Settings come from flags, then the environment (QUORATE_…), then the file of --config, then the defaults;\n" +
	"the first that has a value wins. `config show --origin` prints what is in force and why."

// Settings reads the settings of one binary into its struct.
type Settings struct {
	fields []*field
	file   string // the value of --config
	noFile bool
	// env is os.Environ, except in tests.
	env func() []string
	// warnings are what Load noticed without being sure.
	warnings  []string
	translate Translator
}

// New describes target, a pointer to a struct whose values are the defaults. It
// panics if the struct cannot be described.
func New(target any) *Settings {
	s := &Settings{fields: fieldsOf(reflect.ValueOf(target).Elem()), env: os.Environ}
	seen := map[string]bool{}
	for _, f := range s.fields {
		for _, k := range f.keys() {
			if seen[k] || k == "config" {
				panic("settings: the key " + k + " is declared twice")
			}
			seen[k] = true
		}
	}
	return s
}

// WithoutFile leaves --config out, for a tool that may run beside a server whose
// QUORATE_CONFIG is in the environment.
func (s *Settings) WithoutFile() *Settings {
	s.noFile = true
	return s
}

// Attach adds --config, a flag for every key and the command `config show` to
// root, and explains the precedence in its help. The flags are persistent, so
// that `config show` takes them too.
func (s *Settings) Attach(root *cobra.Command) {
	root.Flags().SortFlags = false
	s.Bind(root.PersistentFlags())
	precedence := Precedence
	if s.noFile {
		precedence = strings.Replace(precedence, " then the file of --config,", "", 1)
	}
	root.Long = strings.TrimSpace(root.Long + "\n\n" + precedence)
	root.AddCommand(s.command())
}

// Bind adds --config and a flag for every key to flags.
func (s *Settings) Bind(flags *pflag.FlagSet) {
	flags.SortFlags = false
	if !s.noFile {
		flags.StringVar(&s.file, "config", "", "YAML file with settings (env "+envPrefix+"CONFIG)")
	}
	for _, f := range s.fields {
		if f.secret != hidden {
			usage := f.usage + " (env " + f.env() + ")"
			flag := flags.VarPF(&flagValue{field: f, texts: &f.given}, f.flag(), "", usage)
			if f.typeName() == "bool" {
				flag.NoOptDefVal = "true"
			}
		}
		if f.secret != open {
			usage := "file that holds the value of " + f.key + " (env " + f.env() + "_FILE)"
			if f.secret == hidden {
				usage = "file that holds the " + f.usage + " (env " + f.env() + "_FILE; the value itself in " + f.env() + ")"
			}
			flags.Var(&flagValue{field: f, texts: &f.givenFile, file: true}, f.flag()+"-file", usage)
		}
	}
}

// keys returns the names of f in the file: the key, and the one for a file with
// the secret.
func (f *field) keys() []string {
	if f.secret != open {
		return []string{f.key, f.key + "_file"}
	}
	return []string{f.key}
}

// flagValue keeps the texts of a flag until Load, when its turn comes. They are
// tried on a scratch value at once, so that a mistake is reported as the flag's.
type flagValue struct {
	field *field
	texts *[]string
	file  bool
}

func (v *flagValue) Set(text string) error {
	if !v.file {
		scratch := &field{value: reflect.New(v.field.value.Type()).Elem()}
		if err := scratch.set(text); err != nil {
			return err
		}
	}
	*v.texts = append(*v.texts, text)
	return nil
}

// String returns the default for help texts. An empty text means that there is
// none to show; pflag also calls it on a zero value.
func (v *flagValue) String() string {
	if v.field == nil || v.file {
		return ""
	}
	text := v.field.text()
	if text == "false" || text == "0" || text == "0s" {
		return ""
	}
	if v.field.secret == url {
		return Redact(text)
	}
	return text
}

func (v *flagValue) Type() string {
	if v.file {
		return "file"
	}
	return v.field.typeName()
}

// Load applies the file, the environment and the flags to the struct. Its error
// is Problems. After an error the struct holds what could be read.
func (s *Settings) Load() error {
	var all Problems
	env := map[string]string{}
	for _, e := range s.env() {
		if name, value, ok := strings.Cut(e, "="); ok && strings.HasPrefix(name, envPrefix) && value != "" {
			env[name] = value
		}
	}
	file := s.file
	if file == "" && !s.noFile {
		file = env[envPrefix+"CONFIG"]
	}
	if file != "" {
		all = append(all, s.applyFile(file)...)
	}
	all = append(all, s.applyEnv(env)...)
	all = append(all, s.applyFlags()...)
	all = append(all, s.applyForeign()...)
	if len(all) > 0 {
		return all
	}
	return nil
}

// Warnings returns what Load noticed without being sure that it is wrong: a
// variable that is one or two letters away from a setting, or one of another
// program that does nothing here. Kubernetes puts variables of its own under the
// same prefix, so unknown ones are no errors.
func (s *Settings) Warnings() []string { return s.warnings }

func (s *Settings) applyEnv(env map[string]string) (all Problems) {
	s.warnings = nil
	known := []string{envPrefix + "CONFIG"}
	for _, f := range s.fields {
		value, file := env[f.env()], ""
		known = append(known, f.env())
		if f.secret != open {
			file = env[f.env()+"_FILE"]
			known = append(known, f.env()+"_FILE")
		}
		if value != "" && file != "" {
			all = append(all, Problem{"environment", fmt.Sprintf("%s and %s_FILE are both set, keep one", f.env(), f.env())})
			continue
		}
		if file != "" {
			all = append(all, f.setFromFile(file, "env "+f.env()+"_FILE", "environment variable "+f.env()+"_FILE")...)
		}
		if value == "" {
			continue
		}
		if err := f.set(value); err != nil {
			all = append(all, Problem{"environment variable " + f.env(), f.guard(err)})
			continue
		}
		f.origin = "env " + f.env()
	}
	for name := range env {
		if slices.Contains(known, name) {
			continue
		}
		if near := nearest(name, known); near != "" {
			s.warnings = append(s.warnings, fmt.Sprintf("environment variable %s is not used; did you mean %s?", name, near))
		}
	}
	slices.Sort(s.warnings)
	return all
}

func (s *Settings) applyFlags() (all Problems) {
	for _, f := range s.fields {
		if len(f.given) > 0 && len(f.givenFile) > 0 {
			all = append(all, Problem{"flags", fmt.Sprintf("--%s and --%s-file are both given, keep one", f.flag(), f.flag())})
			continue
		}
		if n := len(f.givenFile); n > 0 {
			all = append(all, f.setFromFile(f.givenFile[n-1], "flag --"+f.flag()+"-file", "--"+f.flag()+"-file")...)
		}
		if len(f.given) == 0 {
			continue
		}
		// Each text was fine alone; together a name may be given twice.
		if err := f.set(f.given...); err != nil {
			all = append(all, Problem{"--" + f.flag(), f.guard(err)})
			continue
		}
		f.origin = "flag --" + f.flag()
	}
	return all
}

// setFromFile reads a secret from path. One trailing newline belongs to the
// file, not to the secret.
func (f *field) setFromFile(path, origin, where string) Problems {
	b, err := os.ReadFile(path)
	if err != nil {
		return Problems{{where, err.Error()}}
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r")
	if text == "" {
		return Problems{{where, path + " is empty"}}
	}
	if err := f.set(text); err != nil {
		return Problems{{where, f.guard(err)}}
	}
	f.origin = "file " + path + " (" + origin + ")"
	return nil
}

// guard returns the text of err, unless it may quote a secret.
func (f *field) guard(err error) string {
	if f.secret != open {
		return "not a " + f.typeName()
	}
	return err.Error()
}
