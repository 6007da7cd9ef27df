// The vocabulary between daemon and hand: a child of pid 1 that works on the files and ports of a
// box with the rights of one of its users (init/hand.h). One SOCK_SEQPACKET message each way; a
// hand serves one request at a time and ends it with DONE or FAILED. Closing the socket cancels.
// The daemon treats every answer as hostile; a hand checks requests all the same. No allocation.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "wire/pack.h"

#define REACH_SMALL (128 * 1024) // a file that travels inside of one message
#define REACH_SIZE_MAX (REACH_SMALL + 16 * 1024)
#define REACH_PATH_MAX 4095
#define REACH_GLOBS_MAX 1024
#define REACH_DEPTH_MAX 256
#define REACH_BATCH (48 * 1024) // items of one message

enum reach_verb {
	REACH_STAT,	// FOLLOW
	REACH_READ,	// a small file as BYTES; a larger one, or with AS_FD, OPENED
	REACH_WRITE,	// PARENTS EXCLUSIVE; mode, bytes
	REACH_BEGIN,	// PARENTS EXCLUSIVE; mode; OPENED with a file that has no name yet
	REACH_COMMIT,	// it takes its name, and the old file goes
	REACH_ABORT,	// it goes, and the old file stays
	REACH_LIST,	// RECURSIVE HIDDEN; limit; ENTRIES
	REACH_MKDIR,	// PARENTS; mode
	REACH_REMOVE,	// RECURSIVE (else files and links only), EMPTY (an empty directory too)
	REACH_MOVE,	// to `other`, as mv does it; EXCLUSIVE: replaces nothing
	REACH_CHMOD,	// FOLLOW RECURSIVE; mode
	REACH_READLINK, // DONE with text
	REACH_FIND,	// HIDDEN; include exclude types, min and max size, depth, limit; ENTRIES
	REACH_GREP,	// FIXED NO_CASE HIDDEN; text; include exclude, limit, max; MATCHES
	REACH_PACK, // IGNORE; exclude, and with IGNORE include: tracked paths; OPENED with a pipe,
		    // then a tar comes out of it
	REACH_UNPACK, // OWNERS; max bytes; OPENED with a pipe that takes a tar
	REACH_WATCH,  // RECURSIVE ATTRIB; include or exclude; DONE when in place, then EVENTS
	REACH_DIAL,   // port; OPENED with a connected socket
	REACH_PORTS,  // PORTS: where somebody listens
	REACH_SWEEP,  // signal, pid, since
	REACH_SPACE,  // DONE with space
	REACH_SOCKET, // with TALK_CAN_NET; OPENED with a socket that is connected to nothing
	REACH_VERB_COUNT
};

enum reach_flags {
	REACH_FOLLOW = 1,
	REACH_PARENTS = 2,
	REACH_RECURSIVE = 4,
	REACH_HIDDEN = 8,
	REACH_EXCLUSIVE = 16,
	REACH_AS_FD = 32,
	REACH_FIXED = 64,
	REACH_NO_CASE = 128,
	REACH_ATTRIB = 256,
	REACH_EMPTY = 512,
	REACH_OWNERS = 1024,
	REACH_PROC = 2048,   // with TALK_CAN_PROC; /proc is answered, too: for the daemon itself
	REACH_IGNORE = 4096, // with TALK_CAN_IGNORE; PACK leaves out what git ignores
	REACH_FLAGS = 8191,
};

enum reach_type {
	REACH_REGULAR,
	REACH_DIRECTORY,
	REACH_SYMLINK,
	REACH_OTHER, // FIFO, socket, device
	REACH_TYPE_COUNT
};

#define REACH_KEEP_MODE UINT32_MAX // of an existing file, else 0644; of a directory 0755

struct reach_ask {
	enum reach_verb verb;
	uint32_t flags;
	uint32_t mode;	   // of what is made
	uint32_t types;	   // FIND: bits by reach_type; 0: all
	uint32_t number;   // DIAL: port; SWEEP: signal, 0 only counts
	uint32_t pid;	   // SWEEP: the root of what is signalled, itself spared
	uint32_t depth;	   // FIND: 0: no bound; SWEEP: 1 + the leaf that is swept, 0: none
	uint64_t limit;	   // of items; 0: no bound
	uint64_t min, max; // FIND: size; GREP: max bytes read of one file
	uint64_t since;	   // SWEEP: CLOCK_BOOTTIME in ms; what is older is spared
	struct str base;   // where a relative path begins; absolute
	struct str path, other;
	struct str text;	     // GREP: what is looked for
	uint32_t includes, excludes; // how many of `globs`, includes first
	const char **globs;	     // given by the caller: REACH_GLOBS_MAX + 1; NULL-ended
	struct str bytes;	     // WRITE
};

struct reach_stat {
	enum reach_type type;
	uint32_t mode; // 07777
	uint32_t uid, gid;
	uint32_t links;
	uint64_t inode;
	uint64_t size;
	int64_t mtime_us, ctime_us; // of the wall clock
};

enum reach_kind {
	REACH_DONE,
	REACH_FAILED,
	REACH_OPENED, // 1 fd
	REACH_BYTES,
	REACH_ENTRIES,
	REACH_MATCHES,
	REACH_EVENTS,
	REACH_PORTS_ARE,
	REACH_KIND_COUNT
};

// Why a request FAILED, where errno alone does not say it.
enum reach_why {
	REACH_ERRNO,
	REACH_NOT_REGULAR, // a FIFO, a socket or a device where a file should be
	REACH_BAD_PATTERN,
	REACH_BAD_ARCHIVE, // text: what is wrong with it
	REACH_TOO_MUCH,	   // past a bound of archives
	REACH_TOO_DEEP,
	REACH_OUT_OF_TURN, // COMMIT without BEGIN and the like
	REACH_WHY_COUNT
};

struct reach_say {
	enum reach_kind kind;
	enum reach_why why; // FAILED
	int errnum;
	struct str text;	    // READLINK: the target; FAILED: of which path, or more on why
	struct reach_stat stat;	    // of what was touched, where that makes sense; else zeroes
	uint64_t count, bytes;	    // DONE: items that were told, packed, removed, signalled
	uint64_t skipped;	    // what could not be reached or was refused
	bool more;		    // the limit cut it short
	uint64_t space, space_free; // SPACE
	uint64_t inodes, inodes_free;
	struct str rest; // BYTES: the file; of ENTRIES and the like: their items
};

// Items, one behind another in `rest`.
struct reach_entry {
	struct reach_stat stat;
	struct str path;   // beneath the directory that was asked for
	struct str target; // of a symlink
};
struct reach_match {
	struct str path;
	uint64_t line;	 // from 1
	uint32_t column; // in bytes, from 1
	struct str text; // the line, without its end, at most REACH_LINE_MAX bytes
};
#define REACH_LINE_MAX 2048
enum reach_event_type {
	REACH_CREATE,
	REACH_MODIFY,
	REACH_DELETE,
	REACH_MOVE_FROM,
	REACH_MOVE_TO,
	REACH_ATTRIB_SET,
	REACH_OVERFLOW,	 // the kernel dropped some: look at everything again
	REACH_STOPPED,	 // what was watched is gone
	REACH_CAUGHT_UP, // all was told that had happened when a byte came: the daemon asked
	REACH_EVENT_COUNT
};
struct reach_event {
	enum reach_event_type type;
	bool is_directory;
	struct str path; // beneath what is watched
};
struct reach_port {
	uint16_t port;
	bool any; // not on loopback alone
};

// 0 when it does not fit.
size_t reach_encode_ask(const struct reach_ask *ask, void *room, size_t size);
// False: malformed. ask->globs must point to room before the call.
bool reach_decode_ask(const void *bytes, size_t len, struct reach_ask *ask);
// Without `rest`, which the caller puts behind.
size_t reach_encode_say(const struct reach_say *say, void *room, size_t size);
bool reach_decode_say(const void *bytes, size_t len, struct reach_say *say);
int reach_fds(const struct reach_say *say); // how many belong to it

void reach_put_entry(struct pack *pack, const struct reach_entry *entry);
void reach_put_match(struct pack *pack, const struct reach_match *match);
void reach_put_event(struct pack *pack, const struct reach_event *event);
void reach_put_port(struct pack *pack, const struct reach_port *port);
// False at the end, or when it is malformed: then in->failed.
bool reach_get_entry(struct unpack *in, struct reach_entry *out);
bool reach_get_match(struct unpack *in, struct reach_match *out);
bool reach_get_event(struct unpack *in, struct reach_event *out);
bool reach_get_port(struct unpack *in, struct reach_port *out);
