package settings

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// field is one setting: where its value lives and where the value came from.
type field struct {
	key, usage string
	secret     secrecy
	value      reflect.Value
	origin     string
	// given is the text of the flag, and of the flag for the file of a secret;
	// they are applied after file and environment.
	given, givenFile []string
}

type secrecy uint8

const (
	open   secrecy = iota
	hidden         // never a flag, never shown
	url            // a URL: shown without its password
)

func (f *field) env() string  { return envPrefix + strings.ToUpper(f.key) }
func (f *field) flag() string { return strings.ReplaceAll(f.key, "_", "-") }

// fieldsOf flattens the struct v. A struct that cannot be described is a
// mistake in the program, so it panics.
func fieldsOf(v reflect.Value) []*field {
	var all []*field
	for i := range v.NumField() {
		t := v.Type().Field(i)
		key, tagged := t.Tag.Lookup("key")
		switch {
		case tagged:
			f := &field{key: key, usage: t.Tag.Get("usage"), value: v.Field(i), origin: "default"}
			switch s := t.Tag.Get("secret"); s {
			case "":
			case "true":
				f.secret = hidden
			case "url":
				f.secret = url
			default:
				panic(fmt.Sprintf("settings: field %s: secret tag %q is neither true nor url", t.Name, s))
			}
			if f.typeName() == "" {
				panic(fmt.Sprintf("settings: field %s has the unsupported type %s", t.Name, t.Type))
			}
			all = append(all, f)
		case t.Type.Kind() == reflect.Struct:
			all = append(all, fieldsOf(v.Field(i))...)
		}
	}
	return all
}

// typeName returns the word for the value in help texts.
func (f *field) typeName() string {
	switch f.value.Interface().(type) {
	case string:
		return "string"
	case bool:
		return "bool"
	case int, int64:
		return "int"
	case time.Duration:
		return "duration"
	case []string:
		return "list"
	case map[string]int64:
		return "name=number,..."
	}
	return ""
}

// set parses texts and replaces the value by them. Lists and maps accept several
// texts, each of which may hold several elements separated by commas.
func (f *field) set(texts ...string) error {
	text := texts[len(texts)-1]
	switch f.value.Interface().(type) {
	case string:
		f.value.SetString(text)
	case bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("want true or false, have %q", text)
		}
		f.value.SetBool(b)
	case int, int64:
		n, err := strconv.ParseInt(text, 10, f.value.Type().Bits())
		if err != nil {
			return fmt.Errorf("want a whole number, have %q", text)
		}
		f.value.SetInt(n)
	case time.Duration:
		d, err := time.ParseDuration(text)
		if err != nil {
			return fmt.Errorf("want a duration like 250ms, 10s or 5m, have %q", text)
		}
		f.value.SetInt(int64(d))
	case []string:
		f.value.Set(reflect.ValueOf(elements(texts)))
	case map[string]int64:
		m := map[string]int64{}
		for _, e := range elements(texts) {
			name, number, ok := strings.Cut(e, "=")
			n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
			name = strings.TrimSpace(name)
			if !ok || err != nil || name == "" {
				return fmt.Errorf("want name=number, have %q", e)
			}
			if _, twice := m[name]; twice {
				return fmt.Errorf("%q is given twice", name)
			}
			m[name] = n
		}
		f.value.Set(reflect.ValueOf(m))
	}
	return nil
}

// elements splits texts at commas and drops what is empty, so that "" is the
// empty list and "a,b," has two elements.
func elements(texts []string) []string {
	list := []string{}
	for _, t := range texts {
		for e := range strings.SplitSeq(t, ",") {
			if e = strings.TrimSpace(e); e != "" {
				list = append(list, e)
			}
		}
	}
	return list
}

// text returns the value as the command line would take it, without regard to
// secrecy.
func (f *field) text() string {
	switch v := f.value.Interface().(type) {
	case time.Duration:
		return v.String()
	case []string:
		return strings.Join(v, ",")
	case map[string]int64:
		parts := make([]string, 0, len(v))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, k+"="+strconv.FormatInt(v[k], 10))
		}
		return strings.Join(parts, ",")
	default:
		return fmt.Sprint(v)
	}
}

// hiddenText stands for a secret that is set.
const hiddenText = "(secret)"

// shown returns the value as dumps may show it, in its own type.
func (f *field) shown() any {
	switch v := f.value.Interface().(type) {
	case time.Duration:
		return v.String()
	case string:
		switch {
		case f.secret == hidden && v != "":
			return hiddenText
		case f.secret == url:
			return Redact(v)
		}
		return v
	case []string:
		return append([]string{}, v...) // never nil, which JSON would write as null
	case map[string]int64:
		if v == nil {
			return map[string]int64{}
		}
		return v
	default:
		return v
	}
}

// Redact hides the password of a URL. It works on the text, because a URL that
// cannot be parsed must not show its password either.
func Redact(text string) string {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return text
	}
	at := strings.LastIndexByte(rest, '@')
	if at < 0 {
		return text
	}
	user, _, password := strings.Cut(rest[:at], ":")
	if password {
		user += ":(secret)"
	}
	return scheme + "://" + user + rest[at:]
}

// Problem is one mistake in a file, a variable or a flag.
type Problem struct {
	// Where is file:line:col, the variable or the flag.
	Where   string
	Message string
}

func (p Problem) Error() string { return p.Where + ": " + p.Message }

// Problems are all mistakes that Load found, in order of precedence and place.
type Problems []Problem

func (p Problems) Error() string {
	errs := make([]error, len(p))
	for i := range p {
		errs[i] = p[i]
	}
	return errors.Join(errs...).Error()
}
