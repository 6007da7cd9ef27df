// Is there disk space for a cold start? Measured before each start, one at a time per sandbox, with
// reservations of other starts subtracted. If space is short, files of dead sibling sessions are
// removed once.
#pragma once

#include "agent/private.h"

#define ADMISSION_THRESHOLD (2048ull << 20)
#define ADMISSION_INODES_PERCENT 5

// The measurements; the decision is a pure function of them. Errors are classified by errno, never
// by their text: a program that prints "no space left" proves nothing.
struct admission_facts {
	bool measured;	    // the numbers below are valid
	uint64_t available; // bytes for this start: of the sandbox and of the host, less
			    // reservations
	uint64_t threshold;
	uint64_t inodes_free, inodes; // 0, 0: no limit
	uint64_t host_free, host_floor;
	bool cleaned; // stale files were already removed
	// From probing, listing, removing or creating on the sandbox's own file system.
	int errnum;
	bool host_sound; // the file system below is neither full nor failing
	// From the setup, each by what observes it.
	bool no_workspace;   // its directories cannot be made
	bool control_failed; // the sandbox answers with an internal error
	bool probe_hung;     // it does not answer
};

enum admission_verdict {
	ADMISSION_ACCEPT,
	ADMISSION_CLEAN,    // too little: remove stale files and measure again
	ADMISSION_REJECTED, // capacity_rejected
	ADMISSION_UNKNOWN,  // capacity_unknown
	ADMISSION_UNUSABLE, // filesystem_unusable
	ADMISSION_FAILED,   // the setup failed
};
// The errno that an error proves of the sandbox's own file system: EROFS, EIO; else 0. ENOSPC
// proves nothing: it may be the tenant's quota.
int admission_proof(const struct err *err);

struct admission_judgement {
	enum admission_verdict verdict;
	bool may_destroy; // that sandbox, and no other
};
struct admission_judgement admission_judge(const struct admission_facts *facts);

// Handles the result of a step of the setup. Returns the error, or, if it proves that the sandbox
// is unusable, UNAVAILABLE filesystem_unusable, sandbox_unreachable, sandbox_failed or
// workspace_failed after removing that sandbox, so that a retry gets a new one. Takes the error
// over.
enum admission_step { ADMISSION_PROBE, ADMISSION_WORKSPACE };
fallible admission_setup(struct agent_session *agent, enum admission_step step, struct err *failed);
// The meaning of a step's error for the sandbox. Errors of the tenant's own limits, of a part of
// cove that is not ready and of a wait that was ended say nothing.
void admission_classify(enum admission_step step, const struct err *failed,
			struct admission_facts *out);

// Admission of one agent session. NO_SPACE capacity_rejected, filesystem_unusable; UNAVAILABLE
// capacity_unknown. Changes no lease. An admitted start holds a reservation until
// agent_unreserve().
fallible admission_ask(struct agent_session *agent);
