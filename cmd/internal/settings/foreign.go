package settings

import (
	"slices"
	"strings"
)

// Foreign is what the environment of another program means to this one.
type Foreign struct {
	Values []Value
	// Warnings name variables that do nothing here, and what to do instead.
	Warnings []string
	Problems Problems
}

// Value is a setting that a foreign variable stands for.
type Value struct {
	Key, Text string
	// From is the name of the variable.
	From string
}

// Translator reads the variables of another program out of the whole
// environment; one that is set but empty is not in it. own returns where a setting
// comes from, "" when nobody has set it.
type Translator func(env map[string]string, own func(key string) (origin string)) Foreign

// Translate lets variables of another program stand for settings. Flags, our own
// variables and the file win over them.
func (s *Settings) Translate(t Translator) { s.translate = t }

func (s *Settings) applyForeign() (all Problems) {
	if s.translate == nil {
		return nil
	}
	env := map[string]string{}
	for _, e := range s.env() {
		if name, value, ok := strings.Cut(e, "="); ok && value != "" {
			env[name] = value
		}
	}
	byKey := map[string]*field{}
	for _, f := range s.fields {
		byKey[f.key] = f
	}
	f := s.translate(env, func(key string) string {
		if origin := byKey[key].origin; origin != "default" {
			return origin
		}
		return ""
	})
	for _, v := range f.Values {
		to := byKey[v.Key]
		if to.origin != "default" {
			f.Warnings = append(f.Warnings, "environment variable "+v.From+" is not used: "+v.Key+" comes from "+to.origin)
			continue
		}
		if err := to.set(v.Text); err != nil {
			all = append(all, Problem{"environment variable " + v.From, to.guard(err)})
			continue
		}
		to.origin = "env " + v.From
	}
	s.warnings = append(s.warnings, f.Warnings...)
	slices.Sort(s.warnings)
	return append(all, f.Problems...)
}
