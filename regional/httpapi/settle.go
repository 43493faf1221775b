package httpapi

import (
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/regional/headers"
)

// maxSettleBytes bounds the body of /v1/settle: what a URL may have.
const maxSettleBytes = 64 << 10

// Settled is the body of a 200 of /v1/settle, in hits for each descriptor.
type Settled struct {
	// Charged is what was charged beyond the estimate, Refunded what was given back of
	// it, to buckets that have room, and Uncharged what was too much to charge: it is
	// more than max_debt below zero.
	Charged   uint64         `json:"charged"`
	Refunded  uint64         `json:"refunded"`
	Uncharged uint64         `json:"uncharged"`
	Rule      string         `json:"rule,omitempty"`
	Reason    enforce.Reason `json:"reason"`
	Remaining *uint32        `json:"remaining,omitempty"`
}

func (cfg *Config) settle(w http.ResponseWriter, r *http.Request) {
	query, err := settleQuery(r)
	if err != nil {
		fail(w, err)
		return
	}
	req, err := ParseSettle(query)
	if err != nil {
		fail(w, err)
		return
	}
	d, err := cfg.Decide(r.Context(), req)
	if err != nil {
		fail(w, err)
		return
	}
	style := cfg.Headers
	style.Explain = style.Explain || headers.Asked(r.Header.Get(headers.Explain))
	for _, h := range headers.Render(d, style, time.Now()) {
		w.Header().Set(h.Name, h.Value)
	}
	writeJSON(w, settled(req, d))
}

func settled(req enforce.Request, d enforce.Decision) Settled {
	a := allowed(d)
	s := Settled{Rule: a.Rule, Reason: a.Reason, Remaining: a.Remaining}
	first := req.Descriptors[0] // all have the same cost
	if first.Refund {
		s.Refunded = *first.Hits
		return s
	}
	for i := range d.Statuses {
		if st := &d.Statuses[i]; st.Rule != nil && !st.Rule.Shadow {
			// Rounded up: what is told as charged was charged.
			s.Uncharged = max(s.Uncharged, uint64((st.Uncharged+quota.Token-1)/quota.Token))
		}
	}
	s.Uncharged = min(s.Uncharged, *first.Hits)
	s.Charged = *first.Hits - s.Uncharged
	return s
}

// settleQuery returns the parameters of a request: in its URL, or as a form in its body.
func settleQuery(r *http.Request) (string, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxSettleBytes+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: read body: %w", ErrBadRequest, err)
	case len(body) > maxSettleBytes:
		return "", fmt.Errorf("%w: the body has more than %d bytes", ErrBadRequest, maxSettleBytes)
	case len(body) == 0:
		return r.URL.RawQuery, nil
	case r.URL.RawQuery != "":
		return "", fmt.Errorf("%w: give the parameters in the URL or in the body, not in both", ErrBadRequest)
	}
	const form = "application/x-www-form-urlencoded"
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != form {
		return "", fmt.Errorf("%w: a body must be of type %s, not %q", ErrBadRequest, form, r.Header.Get("Content-Type"))
	}
	return strings.TrimRight(string(body), "\r\n"), nil
}

// ParseSettle reads the parameters of /v1/settle: those of /v1/check without hits, and
//
//	estimate=N          what was asked for, as hits of /v1/check
//	actual=N            what it has cost
func ParseSettle(raw string) (enforce.Request, error) {
	var rest []string
	var estimate, actual *uint64
	for part := range strings.SplitSeq(raw, "&") {
		k, v, _ := strings.Cut(part, "=")
		var amount **uint64
		switch name, _ := url.QueryUnescape(k); name {
		case "estimate":
			amount = &estimate
		case "actual":
			amount = &actual
		default:
			rest = append(rest, part)
			continue
		}
		n, err := strconv.ParseUint(v, 10, 64)
		if err != nil || *amount != nil {
			return enforce.Request{}, fmt.Errorf("%w: %q: give one whole number from 0 to 2^64-1", ErrBadRequest, part)
		}
		*amount = &n
	}
	req, err := parse("/v1/settle", strings.Join(rest, "&"))
	switch {
	case err != nil:
		return enforce.Request{}, err
	case estimate == nil || actual == nil:
		return enforce.Request{}, fmt.Errorf("%w: give estimate=N, the hits that were asked for, and actual=N, what it has cost", ErrBadRequest)
	case req.Descriptors[0].Hits != nil:
		return enforce.Request{}, fmt.Errorf("%w: hits has no meaning here, give estimate and actual", ErrBadRequest)
	}
	return enforce.Settlement(req, *estimate, *actual)
}
