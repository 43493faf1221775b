// Package report writes what the simulator found for people: one run with its
// demand, leases and admissions drawn over time, and the summary of a sweep.
//
// The text is plain ASCII within 80 columns and the same for the same run, so that
// it can be kept as a golden file: in a diff of the drawing an oscillation or a
// starving region shows, where a changed number would not.
package report
