// The results of an execution that a request names, for the files of their routes.
#pragma once

#include "agent/results.h"
#include "execution/execution.h"
#include "gateway/gateway.h"

// Of x->params[0] and ?attempt=.
struct results_of {
	struct http *x;
	struct execution_place place;
	struct results_attempt attempt;
	struct store_result row;
	bool stored; // `row` is there; else the attempt runs, or has not begun
};
void results_of_done(struct results_of *of);
#define auto_results_of on_exit_call(results_of_done) struct results_of

// FORBIDDEN not_allowed; NOT_FOUND no_execution, no_attempt; INVALID bad_field.
fallible results_of_request(struct http *x, struct results_of *out);
// The same for the last attempt of another execution.
fallible results_of_execution(struct http *x, struct str id, struct results_of *out);
// The log of the attempt: stored, or of the command that runs. `*out_mask` is for
// log_reader_begin(). NOT_FOUND no_log.
fallible results_of_log(struct results_of *of, struct tape **out, struct mask **out_mask);
void results_of_log_done(struct results_of *of, struct tape *tape, struct mask *mask);
