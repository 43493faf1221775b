package httpapi

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/regional/headers"
	"github.com/quorate/quorate/regional/problem"
)

// maxEntries bounds what one /v1/check may ask for.
const maxEntries = 64

// Allowed is the body of a 200 of /v1/check.
type Allowed struct {
	Allowed   bool           `json:"allowed"`
	Rule      string         `json:"rule,omitempty"`
	Reason    enforce.Reason `json:"reason"`
	Remaining *uint32        `json:"remaining,omitempty"`
	// DelayMS is the X-RateLimit-Delay-Ms header field: hold the request back so long.
	DelayMS int64 `json:"delay_ms,omitempty"`
}

func (cfg *Config) check(w http.ResponseWriter, r *http.Request) {
	req, err := ParseCheck(r.URL.RawQuery)
	if err != nil {
		fail(w, err)
		return
	}
	switch d, ok := cfg.decide(w, r, req); {
	case !ok:
	case d.Over:
		problem.Write(w, problem.Denied(d))
	default:
		writeJSON(w, allowed(d))
	}
}

// decide asks for a decision and writes its header fields; or it writes why there is
// none, and ok is false.
func (cfg *Config) decide(w http.ResponseWriter, r *http.Request, req enforce.Request) (d enforce.Decision, ok bool) {
	d, err := cfg.Decide(r.Context(), req)
	if err != nil {
		fail(w, err)
		return d, false
	}
	style := cfg.Headers
	style.Explain = style.Explain || headers.Asked(r.Header.Get(headers.Explain))
	for _, h := range headers.Render(d, style, time.Now()) {
		w.Header().Set(h.Name, h.Value)
	}
	return d, true
}

func allowed(d enforce.Decision) Allowed {
	a := Allowed{Allowed: true, Reason: enforce.NoRule, DelayMS: headers.Milliseconds(d.Delay)}
	if bind := headers.Binding(d); bind != nil {
		a.Rule, a.Reason, a.Remaining = bind.Rule.ID, bind.Reason, &bind.Remaining
		return a
	}
	for i := range d.Statuses {
		if s := &d.Statuses[i]; s.Rule != nil {
			a.Rule, a.Reason = s.Rule.ID, s.Reason
			break
		}
	}
	return a
}

// ParseCheck reads the query of /v1/check. Pairs keep their order, since a
// descriptor is an ordered list.
//
//	domain=D            required, once
//	hits=N              the cost; 0 only looks, absent is 1
//	override=N/UNIT     the request's own limit in the place of the rules', as 10/minute,
//	                    for each descriptor
//	descriptor=QUERY    a descriptor of its own, whose pairs are encoded once
//	                    more; may be repeated
//	KEY=VALUE           all others are the entries of one descriptor
//
// The reserved names can be entry keys inside descriptor=QUERY.
func ParseCheck(raw string) (enforce.Request, error) { return parse("/v1/check", raw) }

func parse(path, raw string) (enforce.Request, error) {
	var req enforce.Request
	pairs, err := parsePairs(raw)
	if err != nil {
		return req, err
	}
	var (
		plain   []rules.Entry
		hits    *uint64
		limit   rules.Override
		domains int
		entries = 0
	)
	for _, p := range pairs {
		switch p.Key {
		case "domain":
			req.Domain = p.Value
			domains++
		case "hits":
			n, err := strconv.ParseUint(p.Value, 10, 64)
			if err != nil || hits != nil {
				return req, fmt.Errorf("%w: hits=%q: give one whole number from 0 to 2^64-1", ErrBadRequest, p.Value)
			}
			hits = &n
		case "override":
			o, err := rules.ParseOverride(p.Value)
			switch {
			case err != nil:
				return req, fmt.Errorf("%w: override=%q: %w", ErrBadRequest, p.Value, err)
			case !limit.IsZero():
				return req, fmt.Errorf("%w: override=%q: there is one already; it is for all descriptors, so give it once, or use /json", ErrBadRequest, p.Value)
			}
			limit = o
		case "descriptor":
			inner, err := parsePairs(p.Value)
			if err != nil {
				return req, err
			}
			if len(inner) == 0 {
				return req, fmt.Errorf("%w: descriptor is empty, give descriptor=KEY%%3DVALUE", ErrBadRequest)
			}
			entries += len(inner)
			req.Descriptors = append(req.Descriptors, enforce.Descriptor{Entries: inner})
		default:
			plain = append(plain, p)
			entries++
		}
	}
	if len(plain) > 0 {
		req.Descriptors = append([]enforce.Descriptor{{Entries: plain}}, req.Descriptors...)
	}
	for i := range req.Descriptors {
		req.Descriptors[i].Hits, req.Descriptors[i].Override = hits, limit
	}
	switch {
	case domains > 1:
		return req, fmt.Errorf("%w: domain is given %d times", ErrBadRequest, domains)
	case req.Domain == "":
		return req, fmt.Errorf("%w: domain is missing, ask %s?domain=DOMAIN&KEY=VALUE", ErrBadRequest, path)
	case len(req.Descriptors) == 0:
		return req, fmt.Errorf("%w: no descriptor, ask %s?domain=%s&KEY=VALUE", ErrBadRequest, path, url.QueryEscape(req.Domain))
	case entries > maxEntries:
		return req, fmt.Errorf("%w: %d entries, at most %d are allowed", ErrBadRequest, entries, maxEntries)
	}
	return req, nil
}

// parsePairs splits a query without losing the order of its pairs.
func parsePairs(raw string) ([]rules.Entry, error) {
	var out []rules.Entry
	for part := range strings.SplitSeq(raw, "&") {
		if part == "" {
			continue
		}
		k, v, _ := strings.Cut(part, "=")
		key, err := url.QueryUnescape(k)
		if err != nil {
			return nil, fmt.Errorf("%w: query name %q: %w", ErrBadRequest, k, err)
		}
		value, err := url.QueryUnescape(v)
		if err != nil {
			return nil, fmt.Errorf("%w: value of %q: %w", ErrBadRequest, key, err)
		}
		if key == "" {
			return nil, fmt.Errorf("%w: query pair %q has no name", ErrBadRequest, part)
		}
		if !utf8.ValidString(key) || !utf8.ValidString(value) {
			return nil, fmt.Errorf("%w: %q is not UTF-8", ErrBadRequest, part)
		}
		out = append(out, rules.Entry{Key: key, Value: value})
	}
	return out, nil
}
