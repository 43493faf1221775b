package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Problem is one thing that is wrong with a document.
type Problem struct {
	File string
	// Line and Col count from 1; 0 where the place is not known.
	Line, Col int
	// Key is the path of the key in question, like
	// "descriptors[0].rate_limit.unit"; empty when it is the whole document.
	Key string
	// Message says what is wrong and what would be right.
	Message string
}

// String returns "file:line:col: message".
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		b.WriteString(":" + strconv.Itoa(p.Line))
		if p.Col > 0 {
			b.WriteString(":" + strconv.Itoa(p.Col))
		}
	}
	if b.Len() > 0 {
		b.WriteString(": ")
	}
	b.WriteString(p.Message)
	return b.String()
}

// Problems is everything that is wrong with a set of documents, sorted by
// place. It is the error of Parse.
type Problems []Problem

// maxPrinted keeps an error readable, and small enough for a gRPC status.
const maxPrinted = 100

// Error prints one problem per line.
func (p Problems) Error() string {
	var b strings.Builder
	for i, one := range p {
		if i > 0 {
			b.WriteByte('\n')
		}
		if i == maxPrinted {
			fmt.Fprintf(&b, "… and %d more problems", len(p)-i)
			break
		}
		b.WriteString(one.String())
	}
	return b.String()
}

// sorted orders by place and drops repetitions: an aliased block is walked as
// often as it is used, but it is wrong in one place.
func (p Problems) sorted() Problems {
	slices.SortStableFunc(p, func(a, b Problem) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col),
			strings.Compare(a.Message, b.Message))
	})
	return slices.CompactFunc(p, func(a, b Problem) bool {
		return a.File == b.File && a.Line == b.Line && a.Col == b.Col && a.Message == b.Message
	})
}
