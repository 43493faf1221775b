// Package check is the independent auditor: it sees admitted requests, with one
// clock, and a limit, and says by how much the requests exceed the Bound. It
// shares no code with what it audits beyond the unit of a token.
//
// # The Bound as one number
//
// For a limit of rate R per period U and burst B, and admissions of cost c_k at
// times t_k in order, the Bound asks of every interval of length W that
//
//	sum of the costs within it <= B + R*W/U.
//
// Only the closed intervals [t_i, t_n] matter: shrinking any other interval to
// the first and last admission within it keeps the sum and shortens W. Let
//
//	L_n = min over i <= n of  B + R*(t_n - t_i)/U - (c_i + … + c_n).
//
// Splitting off the last admission gives
//
//	L_n = min(B, L_(n-1) + R*(t_n - t_(n-1))/U) - c_n,
//
// which is a token bucket that starts full and may go negative. So the worst
// overshoot over every window is max over n of -L_n, found in one pass, and
// min over n of L_n is the smallest headroom there ever was. Meter is this pass.
//
// What is given back is an admission of a negative cost: then the Bound is for the sum
// of what is admitted less what is given back, each when it happens. An interval may
// also begin after it, so
//
//	L_n = min(B, L_(n-1) + R*(t_n - t_(n-1))/U + what is given back).
//
// A window of places is the same with another rule for what leaves it. What is given
// back cancels the youngest admissions: the sum is largest over an interval that begins
// before an admission that is left.
//
// # What the clock cannot know
//
// An auditor outside the agents knows only that an admission happened between
// the moment its request was sent and the moment its answer arrived. Audit
// therefore reports three figures, for the same admissions:
//
//   - Certain counts, in each window, only the admissions whose whole interval
//     lies in it. It is a lower limit of the true overshoot: above zero, the Bound
//     was broken wherever within their intervals the admissions happened. Verdicts
//     are based on it, so nobody is accused falsely.
//   - Raw takes the time of the answer for the time of the admission. It is off
//     by about R*latency/U either way.
//   - Possible counts every admission whose interval touches the window. It is an
//     upper limit: at or below zero, the Bound was kept beyond doubt.
//
// A real leak cannot hide between Certain and Possible for long: the doubt is
// about one latency worth of rate and of requests, while what leaks grows with W.
//
// All arithmetic is exact: levels are 128-bit integers in micro-tokens times U,
// and only the reported figures are rounded, against whoever is audited.
package check
