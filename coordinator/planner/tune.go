package planner

import (
	"os"
	"strconv"
)

func tune(name string, or float64) float64 {
	if v, err := strconv.ParseFloat(os.Getenv(name), 64); err == nil {
		return v
	}
	return or
}

var (
	tCalm   = tune("T_CALM", 1)
	tCount  = tune("T_COUNT", 50)
	tSpread = tune("T_SPREAD", 4)
	tHead   = tune("T_HEAD", 1.02)
	tFill   = tune("T_FILL", 0.6)
	tSpan   = tune("T_SPAN", 3)
	tBand   = tune("T_BAND", 1)
	tGain   = tune("T_GAIN", 1)
	tFine   = tune("T_FINE", 5)
)
