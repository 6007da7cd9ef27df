// One conversation with the daemon, and the words in which pid 1 tells of it.
#pragma once

#include "init/run.h"

enum owed { OWES_STARTED = 1, OWES_FAILED = 2, OWES_EXITED = 4, OWES_HAND = 8 };

struct conv {
	bool used;
	bool forgotten;
	bool starting; // a spare has it in hand
	uint8_t owes;
	uint32_t id;
	uint32_t leaf;
	int64_t asked_us; // when, by pid 1's clock
	int pid;	  // 0: reaped, or never born
	struct run run;	  // our ends of its pipes
	int step, errnum; // FAILED
	int status;	  // EXITED
	uint64_t max_rss, cpu_us;
	bool leaf_empty, over;
};

// Says what is owed. True when the kernel took it, or never will.
bool conv_say(const struct conv *conv);
