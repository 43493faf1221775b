package httpapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/regional/problem"
)

// fail answers a request for which there is no decision.
func fail(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	switch {
	case errors.Is(err, ErrBadRequest), errors.Is(err, enforce.ErrEmptyDomain), errors.Is(err, enforce.ErrNoDescriptors),
		errors.Is(err, rules.ErrOverride):
		status = http.StatusBadRequest
	case errors.Is(err, enforce.ErrNoConfig):
		status = http.StatusServiceUnavailable
	case errors.Is(err, context.Canceled):
		// The client has gone; 499 is what proxies log for it.
		status = 499
	case errors.Is(err, context.DeadlineExceeded):
		status = http.StatusGatewayTimeout
	}
	problem.Write(w, problem.Problem{Status: status, Title: title(status), Detail: err.Error()})
}

func title(status int) string {
	if status == 499 {
		return "Client Closed Request"
	}
	return http.StatusText(status)
}
