// Is there room for a cold start? Measured before, with what dead siblings left cleaned up once if
// there is too little, one at a time, and with what was promised to others counted in.
#pragma once

#include "agent/private.h"

#define ADMISSION_THRESHOLD (2048ull << 20)
#define ADMISSION_INODES_PERCENT 5

// What is known, as facts; what follows from them is a pure function. Errors are told by their
// number, never by their text: a tool that prints "no space left" proves nothing.
struct admission_facts {
	bool measured;	    // the numbers below are there
	uint64_t available; // bytes for this start: of the sandbox and of the host, less promises
	uint64_t threshold;
	uint64_t inodes_free, inodes; // 0, 0: there is no bound
	uint64_t host_free, host_floor;
	bool cleaned; // stale files were cleaned up already
	// While probing, listing, removing or creating on the sandbox's own file system.
	int errnum;
	bool host_sound; // what lies below is neither full nor failing
	// Setup itself.
	bool no_workspace, control_broken, hung;
};

enum admission_verdict {
	ADMISSION_ACCEPT,
	ADMISSION_CLEAN,    // too little: clean up and measure again
	ADMISSION_REJECTED, // capacity_rejected
	ADMISSION_UNKNOWN,  // capacity_unknown
	ADMISSION_UNUSABLE, // filesystem_unusable
	ADMISSION_FAILED,   // setup_failed
};
// What an error proves of the sandbox's own file system: EROFS, EIO; else 0. Want of space is no
// proof: it may be the tenant's own quota.
int admission_proof(const struct err *err);

struct admission_judgement {
	enum admission_verdict verdict;
	bool may_destroy; // that sandbox, and no other
};
struct admission_judgement admission_judge(const struct admission_facts *facts);

// What became of making a workspace: passed on, or, if the error proves that the sandbox's own file
// system is of no use, UNAVAILABLE filesystem_unusable after that sandbox was removed, so that the
// next try has a fresh one. Takes the error over.
fallible admission_prepared(struct agent_session *agent, struct err *failed);

// For one conversation. NO_SPACE capacity_rejected, filesystem_unusable; UNAVAILABLE
// capacity_unknown. Changes no lease. What is accepted is promised until agent_unreserve().
fallible admission_ask(struct agent_session *agent);
