// The protocol between daemon and file worker: a child of pid 1 that works on the files and ports
// of a box with the ids of one of its users (init/file_worker.h). One SOCK_SEQPACKET message each
// way; a worker serves one request at a time and ends it with DONE or FAILED. Closing the socket
// cancels. The daemon treats every answer as hostile; a worker checks requests all the same. No
// allocation.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codec/pack.h"
#include "protocol/field.h"

#define FILEOP_SMALL (128 * 1024) // a file that is sent inside of one message
#define FILEOP_SIZE_MAX (FILEOP_SMALL + 16 * 1024)
#define FILEOP_PATH_MAX 4095
#define FILEOP_GLOBS_MAX 1024
#define FILEOP_DEPTH_MAX 256
#define FILEOP_BATCH (48 * 1024) // items of one message

enum fileop_verb {
	FILEOP_STAT,	 // FOLLOW
	FILEOP_READ,	 // a small file as BYTES; a larger one, or with AS_FD, OPENED
	FILEOP_WRITE,	 // PARENTS EXCLUSIVE; mode, bytes
	FILEOP_BEGIN,	 // PARENTS EXCLUSIVE; mode; OPENED with a file that has no name yet
	FILEOP_COMMIT,	 // the new file gets its name and replaces the old one
	FILEOP_ABORT,	 // the new file is dropped, and the old one stays
	FILEOP_LIST,	 // RECURSIVE HIDDEN; limit; ENTRIES
	FILEOP_MKDIR,	 // PARENTS; mode
	FILEOP_REMOVE,	 // RECURSIVE (else files and links only), EMPTY (an empty directory too)
	FILEOP_MOVE,	 // to `other`, as mv does it; EXCLUSIVE: replaces nothing
	FILEOP_CHMOD,	 // FOLLOW RECURSIVE; mode
	FILEOP_READLINK, // DONE with text
	FILEOP_FIND,	 // HIDDEN; include exclude types, min and max size, depth, limit; ENTRIES
	FILEOP_GREP,	 // FIXED NO_CASE HIDDEN; text; include exclude, limit, max; MATCHES
	// IGNORE; exclude, and with IGNORE include: tracked paths; OPENED with a pipe that gives a
	// tar
	FILEOP_PACK,
	FILEOP_UNPACK,	  // OWNERS; max bytes; OPENED with a pipe that takes a tar
	FILEOP_WATCH,	  // RECURSIVE ATTRIB; include or exclude; DONE when in place, then EVENTS
	FILEOP_DIAL,	  // port; OPENED with a connected socket
	FILEOP_PORTS,	  // PORTS: listening ports
	FILEOP_SWEEP,	  // signal, pid, since
	FILEOP_SPACE,	  // DONE with space
	FILEOP_SOCKET,	  // with TALK_CAN_NET; OPENED with a socket that is connected to nothing
	FILEOP_PROCESSES, // with TALK_CAN_PROCESSES; PROCESSES_ARE
	FILEOP_SIGNAL,	  // with TALK_CAN_PROCESSES; number, pid, since
	FILEOP_VERB_COUNT
};

enum fileop_flags {
	FILEOP_FOLLOW = 1,
	FILEOP_PARENTS = 2,
	FILEOP_RECURSIVE = 4,
	FILEOP_HIDDEN = 8,
	FILEOP_EXCLUSIVE = 16,
	FILEOP_AS_FD = 32,
	FILEOP_FIXED = 64,
	FILEOP_NO_CASE = 128,
	FILEOP_ATTRIB = 256,
	FILEOP_EMPTY = 512,
	FILEOP_OWNERS = 1024,
	FILEOP_PROC = 2048,   // with TALK_CAN_PROC; /proc is readable too: for the daemon itself
	FILEOP_IGNORE = 4096, // with TALK_CAN_IGNORE; PACK leaves out files that git ignores
	FILEOP_STATS = 8192,  // with TALK_CAN_STATS; PACK tells files and no contents
	FILEOP_FLAGS = 16383,
};

enum fileop_type {
	FILEOP_REGULAR,
	FILEOP_DIRECTORY,
	FILEOP_SYMLINK,
	FILEOP_OTHER, // FIFO, socket, device
	FILEOP_TYPE_COUNT
};

#define FILEOP_KEEP_MODE UINT32_MAX // of an existing file, else 0644; of a directory 0755

// The fields of requests and answers, in the order of the wire (protocol/field.h).
//
// Request: mode: of a new file or directory. types: FIND: bits by fileop_type; 0: all. number:
// DIAL: port; SWEEP: signal, 0 only counts; SIGNAL: signal. pid: SWEEP: the root of the processes
// to signal, itself spared; SIGNAL: the one process. depth: FIND: 0: no bound; SWEEP: 1 + the exec
// cgroup to signal, 0: none. limit: of items; 0: no bound. min, max: FIND: size; GREP: max bytes
// read of one file. since: SWEEP: CLOCK_BOOTTIME in ms; older processes are spared; SIGNAL: its
// start, as PROCESSES told it. base: start of relative paths; absolute. text: GREP: the pattern.
// includes, excludes: how many of `globs`, includes first.
// clang-format off
//	  type               field     on the wire                            check
#define FILEOP_REQUEST_FIELDS(F) \
	F(enum fileop_verb,  verb,     FIELD_U8(0, FILEOP_VERB_COUNT - 1),    ANY) \
	F(uint32_t,          flags,    FIELD_U32(0, FILEOP_FLAGS),            ANY) \
	F(uint32_t,          mode,     FIELD_U32(0, UINT32_MAX),              MODE) \
	F(uint32_t,          types,    FIELD_U32(0, (1u << FILEOP_TYPE_COUNT) - 1), ANY) \
	F(uint32_t,          number,   FIELD_U32(0, UINT16_MAX),              SIGNAL) \
	F(uint32_t,          pid,      FIELD_U32(0, INT32_MAX),               ANY) \
	F(uint32_t,          depth,    FIELD_U32(0, UINT32_MAX),              ANY) \
	F(uint64_t,          limit,    FIELD_U64(0, FILEOP_NUMBER_MAX),       ANY) \
	F(uint64_t,          min,      FIELD_U64(0, FILEOP_NUMBER_MAX),       ANY) \
	F(uint64_t,          max,      FIELD_U64(0, FILEOP_NUMBER_MAX),       ANY) \
	F(uint64_t,          since,    FIELD_U64(0, FILEOP_NUMBER_MAX),       ANY) \
	F(struct str,        base,     FIELD_TEXT(FILEOP_PATH_MAX),           ANY) \
	F(struct str,        path,     FIELD_TEXT(FILEOP_PATH_MAX),           ANY) \
	F(struct str,        other,    FIELD_TEXT(FILEOP_PATH_MAX),           ANY) \
	F(struct str,        text,     FIELD_TEXT(FILEOP_TEXT_MAX),           ANY) \
	F(uint32_t,          includes, FIELD_U32(0, FILEOP_GLOBS_MAX),        ANY) \
	F(uint32_t,          excludes, FIELD_U32(0, FILEOP_GLOBS_MAX),        GLOBS)
// mode: 07777. mtime_us, ctime_us: of the wall clock.
#define FILEOP_STAT_FIELDS(F) \
	F(enum fileop_type,  type,     FIELD_U8(0, FILEOP_TYPE_COUNT - 1),    ANY) \
	F(uint32_t,          mode,     FIELD_U16(0, 07777),                   ANY) \
	F(uint32_t,          uid,      FIELD_U32(0, UINT32_MAX),              ANY) \
	F(uint32_t,          gid,      FIELD_U32(0, UINT32_MAX),              ANY) \
	F(uint32_t,          links,    FIELD_U32(0, UINT32_MAX),              ANY) \
	F(uint64_t,          inode,    FIELD_U64(0, UINT64_MAX),              ANY) \
	F(uint64_t,          size,     FIELD_U64(0, INT64_MAX),               ANY) \
	F(int64_t,           mtime_us, FIELD_TIME,                            ANY) \
	F(int64_t,           ctime_us, FIELD_TIME,                            ANY)
// clang-format on

#define FILEOP_MEMBER(type, field, ...) type field;
#define FILEOP_NUMBER_MAX (1ull << 62)
#define FILEOP_TEXT_MAX 4096

struct fileop_request {
	FILEOP_REQUEST_FIELDS(FILEOP_MEMBER)
	const char **globs; // set by the caller: FILEOP_GLOBS_MAX + 1; NULL-terminated
	struct str bytes;   // WRITE
};

struct fileop_stat {
	FILEOP_STAT_FIELDS(FILEOP_MEMBER)
};

enum fileop_kind {
	FILEOP_DONE,
	FILEOP_FAILED,
	FILEOP_OPENED, // 1 fd
	FILEOP_BYTES,
	FILEOP_ENTRIES,
	FILEOP_MATCHES,
	FILEOP_EVENTS,
	FILEOP_PORTS_ARE,
	FILEOP_PROCESSES_ARE,
	FILEOP_KIND_COUNT
};

// Why a request FAILED, where errno alone does not say.
enum fileop_why {
	FILEOP_ERRNO,
	FILEOP_NOT_REGULAR, // a FIFO, a socket or a device where a file should be
	FILEOP_BAD_PATTERN,
	FILEOP_BAD_ARCHIVE, // text: what is wrong with it
	FILEOP_TOO_MUCH,    // beyond a bound of archives
	FILEOP_TOO_DEEP,
	FILEOP_OUT_OF_TURN, // COMMIT without BEGIN and the like
	FILEOP_REFUSED,	    // errno EACCES: the path leads to /proc or /sys
	FILEOP_WHY_COUNT
};

// Answer: stat: of the file of the request, where there is one; else zeroes. text: READLINK: the
// target; FAILED: of which path, or more on why. count, bytes: items sent, packed, removed,
// signalled. skipped: entries that could not be reached or were refused. more: cut by the limit.
// space and on: SPACE.
#define FILEOP_BIT(kind) (1u << FILEOP_##kind)
#define FILEOP_HAS_STAT (FILEOP_BIT(DONE) | FILEOP_BIT(OPENED) | FILEOP_BIT(BYTES))
// clang-format off
//	  type                    field         on the wire                         check    kinds
#define FILEOP_REPLY_FIELDS(F) \
	F(enum fileop_why,        why,          FIELD_U8(0, FILEOP_WHY_COUNT - 1),  ANY,     FILEOP_BIT(FAILED)) \
	F(int,                    errnum,       FIELD_U32(0, 4095),                 ANY,     FILEOP_BIT(FAILED)) \
	F(struct str,             text,         FIELD_TEXT(FILEOP_TEXT_MAX),        ANY,     FILEOP_BIT(FAILED) | FILEOP_BIT(DONE)) \
	F(uint64_t,               count,        FIELD_U64(0, FILEOP_NUMBER_MAX),    ANY,     FILEOP_BIT(DONE)) \
	F(uint64_t,               bytes,        FIELD_U64(0, FILEOP_NUMBER_MAX),    ANY,     FILEOP_BIT(DONE)) \
	F(uint64_t,               skipped,      FIELD_U64(0, FILEOP_NUMBER_MAX),    ANY,     FILEOP_BIT(DONE)) \
	F(bool,                   more,         FIELD_BOOL,                         ANY,     FILEOP_BIT(DONE)) \
	F(uint64_t,               space,        FIELD_U64(0, FILEOP_NUMBER_MAX),    ANY,     FILEOP_BIT(DONE)) \
	F(uint64_t,               space_free,   FIELD_U64(0, FILEOP_NUMBER_MAX),    ANY,     FILEOP_BIT(DONE)) \
	F(uint64_t,               inodes,       FIELD_U64(0, FILEOP_NUMBER_MAX),    ANY,     FILEOP_BIT(DONE)) \
	F(uint64_t,               inodes_free,  FIELD_U64(0, FILEOP_NUMBER_MAX),    ANY,     FILEOP_BIT(DONE))
// Items, one after another in `rest`. An entry begins with its stat; path: beneath the directory of
// the request; target: of a symlink.
#define FILEOP_ENTRY_FIELDS(F) \
	F(struct str,             path,         FIELD_TEXT(FILEOP_PATH_MAX),        NOT_EMPTY) \
	F(struct str,             target,       FIELD_TEXT(FILEOP_PATH_MAX),        ANY)
// line: from 1. column: in bytes, from 1. text: the line, without its end.
#define FILEOP_MATCH_FIELDS(F) \
	F(struct str,             path,         FIELD_TEXT(FILEOP_PATH_MAX),        ANY) \
	F(uint64_t,               line,         FIELD_U64(0, FILEOP_NUMBER_MAX),    ANY) \
	F(uint32_t,               column,       FIELD_U32(0, UINT32_MAX),           ANY) \
	F(struct str,             text,         FIELD_TEXT(FILEOP_LINE_MAX),        ANY)
// path: beneath the watched directory.
#define FILEOP_EVENT_FIELDS(F) \
	F(enum fileop_event_type, type,         FIELD_U8(0, FILEOP_EVENT_COUNT - 1), ANY) \
	F(bool,                   is_directory, FIELD_BOOL,                         ANY) \
	F(struct str,             path,         FIELD_TEXT(FILEOP_PATH_MAX),        ANY)
// any: not on loopback alone.
#define FILEOP_PORT_FIELDS(F) \
	F(uint16_t,               port,         FIELD_U16(1, UINT16_MAX),           ANY) \
	F(bool,                   any,          FIELD_BOOL,                         ANY)
// ppid: 0: none in the box. state: the letter of /proc/PID/stat. cpu_ms: since its start.
// started_ms: since boot. user: a name, or the number. command: cut; the process can change it.
#define FILEOP_PROCESS_FIELDS(F) \
	F(int,                    pid,          FIELD_U32(1, INT32_MAX),            ANY) \
	F(int,                    ppid,         FIELD_U32(0, INT32_MAX),            ANY) \
	F(uint8_t,                state,        FIELD_U8('A', 'z'),                 ANY) \
	F(uint64_t,               cpu_ms,       FIELD_U64(0, FILEOP_NUMBER_MAX),    ANY) \
	F(uint64_t,               rss,          FIELD_U64(0, FILEOP_NUMBER_MAX),    ANY) \
	F(uint64_t,               started_ms,   FIELD_U64(0, FILEOP_NUMBER_MAX),    ANY) \
	F(struct str,             user,         FIELD_TEXT(FILEOP_USER_MAX),        ANY) \
	F(struct str,             command,      FIELD_TEXT(FILEOP_COMMAND_MAX),     ANY)
// clang-format on
#define FILEOP_LINE_MAX 2048
#define FILEOP_USER_MAX 64
#define FILEOP_COMMAND_MAX 1024

enum fileop_event_type {
	FILEOP_CREATE,
	FILEOP_MODIFY,
	FILEOP_DELETE,
	FILEOP_MOVE_FROM,
	FILEOP_MOVE_TO,
	FILEOP_ATTRIB_SET,
	FILEOP_OVERFLOW,  // the kernel dropped some: rescan everything
	FILEOP_STOPPED,	  // the watched directory is gone
	FILEOP_CAUGHT_UP, // every event before the daemon's byte was sent
	FILEOP_EVENT_COUNT
};

struct fileop_reply {
	enum fileop_kind kind;
	struct fileop_stat stat;
	FILEOP_REPLY_FIELDS(FILEOP_MEMBER)
	struct str rest; // BYTES: the file; of ENTRIES and the like: their items
};

struct fileop_entry {
	struct fileop_stat stat;
	FILEOP_ENTRY_FIELDS(FILEOP_MEMBER)
};

struct fileop_match {
	FILEOP_MATCH_FIELDS(FILEOP_MEMBER)
};

struct fileop_event {
	FILEOP_EVENT_FIELDS(FILEOP_MEMBER)
};

struct fileop_port {
	FILEOP_PORT_FIELDS(FILEOP_MEMBER)
};

struct fileop_process {
	FILEOP_PROCESS_FIELDS(FILEOP_MEMBER)
};

// 0 if it does not fit.
size_t fileop_encode_request(const struct fileop_request *ask, void *room, size_t size);
// False: malformed. ask->globs must point to room before the call.
bool fileop_decode_request(const void *bytes, size_t len, struct fileop_request *ask);
// Without `rest`, which the caller appends.
size_t fileop_encode_reply(const struct fileop_reply *say, void *room, size_t size);
bool fileop_decode_reply(const void *bytes, size_t len, struct fileop_reply *say);
int fileop_fds(const struct fileop_reply *say); // how many fds belong to it

void fileop_put_entry(struct pack *pack, const struct fileop_entry *entry);
void fileop_put_match(struct pack *pack, const struct fileop_match *match);
void fileop_put_event(struct pack *pack, const struct fileop_event *event);
void fileop_put_port(struct pack *pack, const struct fileop_port *port);
void fileop_put_process(struct pack *pack, const struct fileop_process *process);
// False at the end, or if malformed: then in->failed.
bool fileop_get_entry(struct unpack *in, struct fileop_entry *out);
bool fileop_get_match(struct unpack *in, struct fileop_match *out);
bool fileop_get_event(struct unpack *in, struct fileop_event *out);
bool fileop_get_port(struct unpack *in, struct fileop_port *out);
bool fileop_get_process(struct unpack *in, struct fileop_process *out);
