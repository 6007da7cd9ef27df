// The record of one sandbox, as every API shows it.
#pragma once

#include "types/spec.h"

// clang-format off
#define STATES(X) \
	X(CREATING, "creating") X(RUNNING, "running") X(PAUSED, "paused") X(FROZEN, "frozen") \
	X(STOPPED, "stopped") X(ARCHIVED, "archived") X(DELETING, "deleting") X(FAILED, "failed")
// clang-format on
enum state {
#define X(name, word) STATE_##name,
	STATES(X)
#undef X
		STATE_COUNT
};
const char *state_word(enum state state);
// No processes, but files: on a disk, or in an archive.
static inline bool state_is_stopped(enum state state)
{
	return state == STATE_STOPPED || state == STATE_ARCHIVED;
}

#define RECORD_TENANT_MAX (WHO_TENANT_MAX + 1) // with its NUL
#define RECORD_REASON_MAX 40
// The reason of `failed`: its disk is absent or incomplete. It can be started on a new one.
#define RECORD_FILES_LOST "files_lost"

// The reason of `paused`: a budget is used up. The sandbox goes on when it is not.
#define RECORD_BUDGET "budget_exceeded"

struct record {
	char id[ID_BOX_LEN + 1];
	char short_id[ID_BOX_LEN + 1];	// as many hex digits as make it unique on this host
	char name[ID_NAME_MAX + 1];	// "": none
	char tenant[RECORD_TENANT_MAX]; // "": of the operator
	char template[TEMPLATE_NAME_MAX];
	char root[TEMPLATE_NAME_MAX]; // the layer that it starts from; "": the template itself
	char *image;		      // the image of that layer, with its digest; NULL: none
	char fork[TEMPLATE_NAME_MAX]; // the copy that it starts from, during its create; "": none.
				      // Not stored
	enum state state;
	char reason[RECORD_REASON_MAX]; // of `failed`, `stopped`: a stable word, else ""
	struct limits limits;
	struct limits next; // being put in force; memory 0: none. See manager/limits
	struct env_map env, labels;
	char user[IMAGE_USER_MAX + 1]; // of commands that name none; "": root
	char login[SPEC_LOGIN_MAX];    // as in the spec, during its create. Not stored
	char *workdir;		       // start directory of commands; NULL: /workspace
	char *launch;		       // run at each start, see types/launch.h; NULL: nothing
	struct volume_mounts volumes;
	struct retention retention;
	struct policy *network;		// NULL: off
	int64_t created_ms, started_ms; // wall clock; 0: not yet
	int64_t ends_ms;		// steady clock: time of deletion; 0: never
	int64_t failed_ms;		// steady clock: time of failure; 0: not failed
	int64_t stopped_ms;		// steady clock: time of the last stop; 0: none
	int64_t unsynced_ms;	// wall clock: begin of work that was not brought back; 0: none
	uint64_t archive_bytes; // of `archived`: size of the file that its disk is in
	uint64_t seq;		// order of creation on this host
	bool ephemeral;		// ends with its processes: no files are kept, it cannot be stopped
	bool disk_kept;		// the warden keeps its disk while it does not run
	char idempotency[RECORD_IDEMPOTENCY_MAX]; // the idempotency key that it was made under; "":
						  // none
	struct {
		const char *reason;    // a literal; NULL: not waiting
		uint32_t position;     // 1: the next of its tenant; 0: not in the line
		const char *operation; // that it waits for; NULL: none
	} wait;			       // for room or for a pull, during create. Not stored
};

// A new record in state creating. Takes over the spec's maps, retention and network.
void record_init(struct record *record, struct spec *spec, const char *id);
void record_done(struct record *record);
void record_write(struct json_out *out, const struct record *record);
// The same as members of an object that is being written.
void record_put(struct json_out *out, const struct record *record);
const char *record_template(const struct record *record); // as its tenant names it
#define RECORD_WORKDIR "/workspace"
const char *record_workdir(const struct record *record); // start directory of its commands
// The host name of its box: its name, else its short id.
const char *record_host(const struct record *record);
// True if every pair of `wanted` is among the labels.
bool record_has_labels(const struct record *record, const struct env_map *wanted);
