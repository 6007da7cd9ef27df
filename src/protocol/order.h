// The protocol between daemon and warden: orders and answers. One SOCK_SEQPACKET message each way,
// encoded here, checked again on arrival. An order names a box by id, a template by name, and
// numbers; never a path, a uid, a kernel flag or an argv.
//
// A killed exec cgroup is spent: since Linux 6.1.129 and 6.14 a process cloned into a cgroup that
// was once killed dies at once. The daemon then orders another CGROUP, which may have the number of
// a spent one, made again. The mark of an exec cgroup is part of its directory's name, for tools on
// the host; an exec cgroup with a mark serves once.
//
// Answers may come out of order: each repeats the id of its order; a BUILD with `ahead` has none.
// fds are sent with the message, their number fixed by its kind; see answer_fds().
//
// The network of a box is two sockets in its network namespace: a TCP listener that accepts every
// connection of the box, except those to its own loopback, and a UDP socket at port 53 of every
// address. They come with BUILD and NETWORK, after the other fds, if the order has `net` and the
// answer has it too. Each opening replaces the one before; accepted connections live on. Without a
// daemon that holds the listener, or without the warden that steers to it, a box is offline: a new
// daemon or warden has NETWORK done again. The order carries any socket of the box, by which the
// warden identifies the namespace.
//
// Boxes outlive daemon and warden. A new daemon asks for BOXES, and takes those that it knows by
// ADOPT; it has the others destroyed. An order whose answer was lost with the connection may have
// been executed, and may be repeated: DESTROY, STOP, PAUSE and THAW then succeed, a BUILD is
// refused with box_exists.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/id.h"
#include "base/str.h"
#include "protocol/field.h"
#include "protocol/talk.h"
#include "types/limits.h"
#include "types/volume.h"

#define ORDER_VERSION 17
#define ORDER_SIZE_MAX 4096
#define ORDER_FDS_MAX 5
#define ORDER_BOXES_MAX 16384
#define ORDER_TRACE_MAX 65 // with its NUL

// clang-format off
//	  kind       word         what it asks                                     fds of the final answer
#define ORDER_KINDS(X) \
	X(HELLO,     "hello",     "versions, and the abilities of this host",      0) \
	X(BUILD,     "build",     "make a box",                                    3) /* control, oom, meter; net */ \
	X(DESTROY,   "destroy",   "end a box, answer when it is verified gone",    0) \
	X(CGROUP,    "cgroup",    "one more cgroup for an exec of this box",       2) /* of a new one join, on v1 another; meter, oom */ \
	X(KILL,      "kill",      "kill all processes of one exec cgroup",         0) \
	X(IMPORT,    "import",    "unpack an archive as a template",               0) /* first a MORE with the pipe */ \
	X(FREEZE,    "freeze",    "copy the host template once, under a name",     0) \
	X(FORGET,    "forget",    "remove a template",                             0) \
	X(LIST,      "list",      "the templates, a page at a time",               0) \
	X(BOXES,     "boxes",     "boxes and their states, a page at a time",      0) \
	X(ADOPT,     "adopt",     "what a new daemon needs of a living box",       0) \
	X(STOP,      "stop",      "end all its processes, keep its disk",          0) \
	X(PAUSE,     "pause",     "freeze a box, answer when all of it is frozen", 0) \
	X(THAW,      "thaw",      "thaw a box",                                    0) \
	X(INVENTORY, "inventory", "resources of boxes in kernel and on disk",      0) \
	X(NETWORK,   "network",   "open or close the network of a living box",     0) /* net */ \
	X(USAGE,     "usage",     "resources in use by a box, without waking it",  0) \
	X(LAYER,     "layer",     "unpack a layer of an image onto its parent",    0) /* brings the archive */ \
	X(SNAPSHOT,  "snapshot",  "copy the disk of a box as a template",          0) \
	X(DESCRIBE,  "describe",  "the note of a snapshot",                        0) \
	X(EXPORT,    "export",    "write a template as a layer of an image",       0) /* brings the file */ \
	X(VOLUME,    "volume",    "make a volume",                                 0) \
	X(UNVOLUME,  "unvolume",  "remove a volume, answer when it is gone",       0) \
	X(VOLUMES,   "volumes",   "volumes and their bytes, a page at a time",     0) \
	X(MOUNT,     "mount",     "a volume for the next BUILD of a box",          0) \
	X(TRASH,     "trash",     "bytes that are being deleted",                  0) \
	X(LIMIT,     "limit",     "change the limits of a box",                    0) \
	X(ARCHIVE,   "archive",   "replace the disk of a stopped box by a file",   0)
// clang-format on

enum order_kind {
#define X(kind, ...) ORDER_##kind,
	ORDER_KINDS(X)
#undef X
		ORDER_KIND_COUNT
};

// Kinds of order, as bits of a row.
#define ORDER_BIT(kind) (1u << ORDER_##kind)
#define ORDER_OF_TEMPLATE                                                                          \
	(ORDER_BIT(IMPORT) | ORDER_BIT(FREEZE) | ORDER_BIT(FORGET) | ORDER_BIT(LIST) |             \
	 ORDER_BIT(LAYER) | ORDER_BIT(DESCRIBE) | ORDER_BIT(EXPORT))
#define ORDER_OF_VOLUME (ORDER_BIT(VOLUME) | ORDER_BIT(UNVOLUME) | ORDER_BIT(VOLUMES))
#define ORDER_OF_ANY (ORDER_BIT(KIND_COUNT) - 1)
#define ORDER_OF_BOX                                                                               \
	(ORDER_OF_ANY & ~(ORDER_BIT(HELLO) | ORDER_BIT(INVENTORY) | ORDER_BIT(TRASH) |             \
			  ORDER_OF_TEMPLATE | ORDER_OF_VOLUME))

// The fields of an order, in the order of the wire (protocol/field.h), and the kinds that have
// each. An encoded order begins with its kind and its id.
//
// trace: of the request that caused it, or "". parent: LAYER: the layer below, "": none; EXPORT:
// the layer below, of which only the difference is written, "": all of it. digest: of its tar,
// unpacked, in hex. part: EXPORT of a snapshot: all of it, its base, or what differs from that.
// zstd: EXPORT packs with zstd, not gzip. box: of BOXES, the ids after this one, "": from the
// first. name: a template or a layer; LIST: names after this one, from ORDER_LAYERS on the layers,
// from ORDER_STEPS on the steps of builds; CGROUP: the mark, or "". host: the box's host name.
// ephemeral: the disk ends with the processes, so no sync is needed, and the box cannot be stopped.
// again: BUILD on the disk that a STOP, or a reboot, has left; CGROUP of `exec_cgroup`, which pid 1
// knows; SNAPSHOT in place of the one of that name. net: BUILD with its network; NETWORK: open it,
// else close. ahead: send the rootfs mounts to the prebuilt box, without an answer; an equal BUILD
// follows, or a DESTROY. cpu: with its CPU time, which costs a millisecond. next: the id of the
// next new box, so that it can be prebuilt, "": unknown; DESTROY: the same, if the box was to be
// the next. base: the template or the layer that the box was made from, and since: when, by the
// wall clock in ms: a younger one of that name is another. note: kept with a snapshot, for the
// daemon alone. volume: VOLUMES: volumes after this one, "": from the first. size: of a volume, 0:
// no limit. number: of a MOUNT, from 0 on: the first one drops those of an earlier try. path,
// subpath: of a MOUNT: where in the box, and which directory of the volume; the warden passes both
// on to pid 1 and uses neither. mounts: the MOUNTs that a BUILD has had. limits: LIMIT: all of
// them; of a box that does not run, the disk's alone is changed, the others come with its next
// BUILD. Refused below what is in use; some may then be changed, and a LIMIT with the former ones
// sets those back.
// ARCHIVE: limits of the disk that is packed, or, with `again`, made from the file.
// clang-format off
//	  type                                  field        on the wire                         check      kinds
#define ORDER_FIELDS(F) \
	F(FIELD_ARRAY(char, ORDER_TRACE_MAX),   trace,       FIELD_CHARS,                        TRACE,     ORDER_OF_ANY & ~ORDER_BIT(HELLO)) \
	F(uint32_t,                             version,     FIELD_U32(0, UINT32_MAX),           ANY,       ORDER_BIT(HELLO)) \
	F(FIELD_ARRAY(char, ID_BOX_LEN + 1),    box,         FIELD_CHARS,                        BOX,       ORDER_OF_BOX) \
	F(FIELD_ARRAY(char, TEMPLATE_NAME_MAX), name,        FIELD_CHARS,                        NAME,      ORDER_BIT(BUILD) | ORDER_BIT(CGROUP) | ORDER_BIT(SNAPSHOT) | ORDER_OF_TEMPLATE) \
	F(FIELD_ARRAY(char, TEMPLATE_NAME_MAX), parent,      FIELD_CHARS,                        PARENT,    ORDER_BIT(LAYER) | ORDER_BIT(EXPORT)) \
	F(FIELD_ARRAY(char, ORDER_DIGEST + 1),  digest,      FIELD_CHARS,                        DIGEST,    ORDER_BIT(LAYER)) \
	F(FIELD_ARRAY(char, TEMPLATE_NAME_MAX), base,        FIELD_CHARS,                        TEMPLATE,  ORDER_BIT(SNAPSHOT)) \
	F(int64_t,                              since,       FIELD_U64(0, ORDER_NUMBER_MAX),     ANY,       ORDER_BIT(SNAPSHOT)) \
	F(FIELD_ARRAY(char, ORDER_NOTE_MAX),    note,        FIELD_CHARS,                        ANY,       ORDER_BIT(SNAPSHOT)) \
	F(FIELD_ARRAY(char, ID_NAME_MAX + 2),   host,        FIELD_CHARS,                        HOST_NAME, ORDER_BIT(BUILD)) \
	F(struct limits,                        limits,      FIELD_U64(0, ORDER_BYTES_MAX),      LIMITS,    ORDER_BIT(BUILD) | ORDER_BIT(LIMIT) | ORDER_BIT(ARCHIVE)) \
	F(uint32_t,                             part,        FIELD_U32(0, ORDER_PART_CHANGES),   ANY,       ORDER_BIT(EXPORT)) \
	F(bool,                                 zstd,        FIELD_BOOL,                         ANY,       ORDER_BIT(EXPORT)) \
	F(bool,                                 ephemeral,   FIELD_BOOL,                         ANY,       ORDER_BIT(BUILD)) \
	F(bool,                                 again,       FIELD_BOOL,                         ANY,       ORDER_BIT(BUILD) | ORDER_BIT(CGROUP) | ORDER_BIT(SNAPSHOT) | ORDER_BIT(ARCHIVE)) \
	F(bool,                                 net,         FIELD_BOOL,                         ANY,       ORDER_BIT(BUILD) | ORDER_BIT(NETWORK)) \
	F(bool,                                 ahead,       FIELD_BOOL,                         AHEAD,     ORDER_BIT(BUILD)) \
	F(bool,                                 cpu,         FIELD_BOOL,                         ANY,       ORDER_BIT(ADOPT)) \
	F(uint32_t,                             exec_cgroup, FIELD_U32(0, TALK_CGROUPS_MAX - 1), ANY,       ORDER_BIT(CGROUP) | ORDER_BIT(KILL)) \
	F(FIELD_ARRAY(char, ID_BOX_LEN + 1),    volume,      FIELD_CHARS,                        VOLUME,    ORDER_OF_VOLUME | ORDER_BIT(MOUNT)) \
	F(uint64_t,                             size,        FIELD_U64(0, ORDER_BYTES_MAX),      ANY,       ORDER_BIT(VOLUME)) \
	F(uint32_t,                             number,      FIELD_U32(0, VOLUME_MOUNTS_MAX - 1), ANY,      ORDER_BIT(MOUNT)) \
	F(bool,                                 read_only,   FIELD_BOOL,                         ANY,       ORDER_BIT(MOUNT)) \
	F(FIELD_ARRAY(char, VOLUME_PATH_MAX + 1), path,      FIELD_CHARS,                        PATH,      ORDER_BIT(MOUNT)) \
	F(FIELD_ARRAY(char, VOLUME_PATH_MAX + 1), subpath,   FIELD_CHARS,                        SUBPATH,   ORDER_BIT(MOUNT)) \
	F(uint32_t,                             mounts,      FIELD_U32(0, VOLUME_MOUNTS_MAX),    ANY,       ORDER_BIT(BUILD)) \
	F(FIELD_ARRAY(char, ID_BOX_LEN + 1),    next,        FIELD_CHARS,                        NEXT,      ORDER_BIT(HELLO) | ORDER_BIT(BUILD) | ORDER_BIT(DESTROY))
// clang-format on

#define ORDER_DIGEST 64
enum { ORDER_PART_ALL, ORDER_PART_BASE, ORDER_PART_CHANGES };
#define ORDER_NOTE_MAX 768
#define ORDER_BYTES_MAX (1ull << 50)
#define ORDER_NUMBER_MAX (1ull << 53) // the largest integer that JSON can carry
#define ORDER_MEMBER(type, field, ...) type field;

struct order {
	enum order_kind kind;
	uint32_t id;
	ORDER_FIELDS(ORDER_MEMBER)
	const struct volume_mounts *volumes; // of the sender of a BUILD alone, which sends a MOUNT
					     // for each; NULL: none
};

enum answer_kind { ANSWER_DONE, ANSWER_MORE, ANSWER_REFUSED, ANSWER_KIND_COUNT };

// is_host: made from this host, not imported. is_snapshot: made by SNAPSHOT. bytes: on disk; 0: not
// measured. created: wall clock, ms.
// clang-format off
#define ORDER_TEMPLATE_FIELDS(F) \
	F(FIELD_ARRAY(char, TEMPLATE_NAME_MAX), name,    FIELD_CHARS,                      TEMPLATE) \
	F(bool,                                 is_host, FIELD_BOOL,                       ANY) \
	F(bool,                                 is_snapshot, FIELD_BOOL,                   ANY) \
	F(uint64_t,                             bytes,   FIELD_U64(0, ORDER_BYTES_MAX),    ANY) \
	F(int64_t,                              created, FIELD_U64(0, ORDER_NUMBER_MAX),   ANY)
// clang-format on
struct order_template {
	ORDER_TEMPLATE_FIELDS(ORDER_MEMBER)
};
#define ORDER_LIST_PAGE 24

// The state of a box, by the kernel.
enum order_box_state {
	ORDER_BOX_ALIVE,
	ORDER_BOX_FROZEN,   // alive, and PAUSEd: its pid 1 answers after THAW
	ORDER_BOX_DEAD,	    // its pid 1 has exited without an order: to be STOPped or DESTROYed
	ORDER_BOX_KEPT,	    // nothing but its disk
	ORDER_BOX_GOING,    // being destroyed or stopped; ask again
	ORDER_BOX_ARCHIVED, // nothing but the archive of its disk
	ORDER_BOX_STATE_COUNT
};
// pid: of its pid 1 on the host; 0: none.
// clang-format off
#define ORDER_BOX_FIELDS(F) \
	F(FIELD_ARRAY(char, ID_BOX_LEN + 1), box,   FIELD_CHARS,                            BOX_ID) \
	F(enum order_box_state,              state, FIELD_U8(0, ORDER_BOX_STATE_COUNT - 1), ANY) \
	F(uint32_t,                          pid,   FIELD_U32(0, INT32_MAX),                ANY)
// clang-format on
struct order_box {
	ORDER_BOX_FIELDS(ORDER_MEMBER)
};
#define ORDER_BOXES_PAGE 32 // a shorter page is the last

// bytes: on disk; ORDER_USAGE_UNKNOWN: not measured.
// clang-format off
#define ORDER_VOLUME_FIELDS(F) \
	F(FIELD_ARRAY(char, ID_BOX_LEN + 1), volume, FIELD_CHARS,               VOLUME_ID) \
	F(uint64_t,                          bytes,  FIELD_U64(0, UINT64_MAX), ANY)
// clang-format on
struct order_volume {
	ORDER_VOLUME_FIELDS(ORDER_MEMBER)
};
#define ORDER_VOLUMES_PAGE 32 // a shorter page is the last

// All resources: for each kind the number in the warden's table and the number that the kernel or
// the disk shows, and the names that are in one but not in the other.
// clang-format off
#define ORDER_INVENTORY_FIELDS(X) \
	X(alive) X(frozen) X(dead) X(kept) X(going) X(archived) /* boxes of the table, by state */ \
	X(prebuilt)    /* and those without an order yet, or whose teardown is not over */ \
	X(groups)    /* cgroups of boxes; the same name in several hierarchies counts once */ \
	X(pids)      /* processes in them */ \
	X(disks)     /* subvolumes, images or directories of boxes */ \
	X(volumes)   /* the same of volumes */ \
	X(loops)     /* loop devices bound to files of boxes or to the pool */ \
	X(slots)     /* id ranges that boxes use */ \
	X(resting)   /* id ranges that wait until the trash is empty */ \
	X(trash)     /* entries not yet reaped */ \
	X(sockets)   /* in RUN/box */ \
	X(notes)     /* in RUN/cells */ \
	X(odd_count) /* all differences, also those that do not fit in the answer */
// clang-format on
struct order_inventory {
#define X(field) uint32_t field;
	ORDER_INVENTORY_FIELDS(X)
#undef X
};
// what: "group_without_box", "box_without_group", "box_without_process", ... name: a leaked
// resource may have any name; it is sent as found, but as printable characters.
// clang-format off
#define ORDER_ODD_FIELDS(F) \
	F(FIELD_ARRAY(char, 24),             what, FIELD_CHARS, WORD) \
	F(FIELD_ARRAY(char, ID_BOX_LEN + 1), name, FIELD_CHARS, TRACE)
// clang-format on
struct order_odd {
	ORDER_ODD_FIELDS(ORDER_MEMBER)
};
#define ORDER_ODDS_MAX 24
// KILL: the kernel does not end the processes. No other error says anything about the box.
#define ORDER_KILL_FAILED "kill_failed"
#define ORDER_ODD_TEMPLATE "layer_without_job"
#define ORDER_UNFINISHED ".new-" // prefix of the name of a template that is being made
// A layer of an image is a whole root: its parent's files as hard links, and its own. Its name is
// this prefix and ORDER_LAYER_HEX hex digits.
#define ORDER_LAYERS ".layer-"
#define ORDER_LAYER_HEX 56
// Prefix of the name of a snapshot for one fork: in no list, and removed when a daemon connects.
#define ORDER_FORK ".fork-"
bool order_is_fork(struct str name);
// Prefix of the name of a snapshot that a step of a build has left; then as of a layer.
#define ORDER_STEPS ".step-"
bool order_is_step(struct str name);

// The abilities of this host, sent at HELLO.
// epoch: differs for each warden process. can_limit_disk: else a disk limit is refused. disk:
// "btrfs", "ext4-image" or "directory". cgroup: "v1", "hybrid" or "v2". net: how connections are
// steered, "sk_lookup", "nft" or "none".
// clang-format off
#define ORDER_HOST_FIELDS(F) \
	F(uint32_t,              version,          FIELD_U32(0, UINT32_MAX),      ANY) \
	F(uint32_t,              pid1_version,     FIELD_U32(0, UINT32_MAX),      ANY) \
	F(uint64_t,              epoch,            FIELD_U64(0, UINT64_MAX),      ANY) \
	F(bool,                  can_limit_disk,   FIELD_BOOL,                    ANY) \
	F(bool,                  can_limit_inodes, FIELD_BOOL,                    ANY) \
	F(FIELD_ARRAY(char, 16), disk,             FIELD_CHARS,                   DISK) \
	F(FIELD_ARRAY(char, 16), cgroup,           FIELD_CHARS,                   CGROUP_VERSION) \
	F(FIELD_ARRAY(char, 16), net,              FIELD_CHARS,                   STEERING) \
	F(uint32_t,              boxes_max,        FIELD_U32(1, ORDER_BOXES_MAX), ANY)
// clang-format on
struct order_host {
	ORDER_HOST_FIELDS(ORDER_MEMBER)
};

// Entries of a layer that a sandbox cannot have, and that were left out or changed.
#define ORDER_DROPPED_FIELDS(X) X(devices) X(fifos) X(sockets) X(xattrs) X(ids)
struct order_dropped {
#define X(field) uint32_t field;
	ORDER_DROPPED_FIELDS(X)
#undef X
};

// Resources that a box uses. Of a box that does not run, only its disk is known. The inodes are
// known where the disk has a fixed number of them.
#define ORDER_USAGE_UNKNOWN UINT64_MAX
struct order_usage {
	uint64_t memory;	      // bytes, with the page cache of its files
	uint64_t cpu_us;	      // since its start
	uint64_t pids;		      // processes and threads
	uint64_t disk;		      // bytes
	uint64_t inodes, inodes_free; // of the whole file system
};
#define ORDER_USAGE_NONE                                                                           \
	((struct order_usage){ORDER_USAGE_UNKNOWN, ORDER_USAGE_UNKNOWN, ORDER_USAGE_UNKNOWN,       \
			      ORDER_USAGE_UNKNOWN, ORDER_USAGE_UNKNOWN, ORDER_USAGE_UNKNOWN})

// The fields of a DONE answer and the kinds of order that have each, in the order of the wire; then
// those of REFUSED. An encoded answer begins with its kind, the order's kind and the order's id. A
// page of LIST, BOXES or INVENTORY ends it: the number of its items, then the items.
//
// exec_cgroup: its number. join_count: how many of the fds join it (1 on v2, 2 on v1; again: 0).
// frozen_us: how long the box was frozen for its snapshot; 0: it did not run. note: as SNAPSHOT
// gave it, "": the template is no snapshot.
// marked: CGROUP again, it has a mark, so it is not for another exec. net: listener and UDP socket
// are the last fds. digest: of the layer that EXPORT has written, diff_id: of its tar, in hex;
// bytes: of the layer in the file, after which the file IMAGE_FILE of the template may follow. pid:
// pid 1 on the host. frozen: whether it is. exec_cgroups: how many there are (from 0 on, some may
// be gone). cpu_us: of the whole box, if the order has `cpu`; of an ended one, what its cgroup had
// used at the end, 0: it had none. trash: of files, or ORDER_USAGE_UNKNOWN. spent: which of them
// are, see cgroup_is_spent(). error, reason, message, hint: the error as the tenant may see it; the
// warden logged the trail.
#define ORDER_BIT_REFUSED (1u << 31)
// clang-format off
//	  type                                          field         on the wire                         check   kinds
#define ANSWER_FIELDS(F) \
	F(uint32_t,                                     exec_cgroup,  FIELD_U32(0, TALK_CGROUPS_MAX - 1), ANY,    ORDER_BIT(BUILD) | ORDER_BIT(CGROUP)) \
	F(uint32_t,                                     join_count,   FIELD_U32(0, 2),                    ANY,    ORDER_BIT(CGROUP)) \
	F(bool,                                         marked,       FIELD_BOOL,                         ANY,    ORDER_BIT(CGROUP)) \
	F(bool,                                         net,          FIELD_BOOL,                         ANY,    ORDER_BIT(BUILD) | ORDER_BIT(NETWORK)) \
	F(uint64_t,                                     bytes,        FIELD_U64(0, ORDER_BYTES_MAX),      ANY,    ORDER_BIT(IMPORT) | ORDER_BIT(FREEZE) | ORDER_BIT(LAYER) | ORDER_BIT(SNAPSHOT) | ORDER_BIT(EXPORT) | ORDER_BIT(ARCHIVE)) \
	F(uint64_t,                                     files,        FIELD_U64(0, ORDER_BYTES_MAX),      ANY,    ORDER_BIT(IMPORT) | ORDER_BIT(FREEZE) | ORDER_BIT(LAYER) | ORDER_BIT(EXPORT)) \
	F(FIELD_ARRAY(char, ORDER_DIGEST + 1),          digest,       FIELD_CHARS,                        DIGEST, ORDER_BIT(EXPORT)) \
	F(FIELD_ARRAY(char, ORDER_DIGEST + 1),          diff_id,      FIELD_CHARS,                        DIGEST, ORDER_BIT(EXPORT)) \
	F(struct order_dropped,                         dropped,      FIELD_U32(0, UINT32_MAX),           ANY,    ORDER_BIT(LAYER)) \
	F(uint64_t,                                     frozen_us,    FIELD_U64(0, ORDER_BYTES_MAX),      ANY,    ORDER_BIT(SNAPSHOT)) \
	F(FIELD_ARRAY(char, ORDER_NOTE_MAX),            note,         FIELD_CHARS,                        ANY,    ORDER_BIT(DESCRIBE)) \
	F(uint32_t,                                     pid,          FIELD_U32(1, INT32_MAX),            ANY,    ORDER_BIT(ADOPT)) \
	F(bool,                                         frozen,       FIELD_BOOL,                         ANY,    ORDER_BIT(ADOPT)) \
	F(uint32_t,                                     exec_cgroups, FIELD_U32(0, TALK_CGROUPS_MAX),     ANY,    ORDER_BIT(ADOPT)) \
	F(uint64_t,                                     cpu_us,       FIELD_U64(0, UINT64_MAX),           ANY,    ORDER_BIT(ADOPT) | ORDER_BIT(STOP) | ORDER_BIT(DESTROY)) \
	F(FIELD_ARRAY(uint64_t, TALK_CGROUPS_MAX / 64), spent,        FIELD_U64(0, UINT64_MAX),           ANY,    ORDER_BIT(ADOPT)) \
	F(struct order_inventory,                       inventory,    FIELD_U32(0, UINT32_MAX),           ANY,    ORDER_BIT(INVENTORY)) \
	F(struct order_usage,                           usage,        FIELD_U64(0, UINT64_MAX),           ANY,    ORDER_BIT(USAGE)) \
	F(uint64_t,                                     trash,        FIELD_U64(0, UINT64_MAX),           ANY,    ORDER_BIT(TRASH)) \
	F(enum err_kind,                                error,        FIELD_U8(0, ERR_NO_SPACE),          ANY,    ORDER_BIT_REFUSED) \
	F(FIELD_ARRAY(char, 40),                        reason,       FIELD_CHARS,                        WORD,   ORDER_BIT_REFUSED) \
	F(FIELD_ARRAY(char, 256),                       message,      FIELD_CHARS,                        ANY,    ORDER_BIT_REFUSED) \
	F(FIELD_ARRAY(char, 256),                       hint,         FIELD_CHARS,                        ANY,    ORDER_BIT_REFUSED)
// clang-format on

struct answer {
	enum answer_kind kind;
	enum order_kind to;	// the order's kind
	uint32_t id;		// the order's id
	struct order_host host; // HELLO
	union {
		struct order_template templates[ORDER_LIST_PAGE]; // LIST
		struct order_box cells[ORDER_BOXES_PAGE];	 // BOXES, in the order of their ids
		struct order_odd odds[ORDER_ODDS_MAX];		 // INVENTORY
		struct order_volume volumes[ORDER_VOLUMES_PAGE]; // VOLUMES, by id
	};
	uint32_t template_count, cell_count, odd_count, volume_count;
	ANSWER_FIELDS(ORDER_MEMBER)
};

static inline bool cgroup_is_spent(const uint64_t *spent, uint32_t exec_cgroup)
{
	return spent[exec_cgroup / 64] >> exec_cgroup % 64 & 1;
}

// Encodes into `room`; returns the length, 0 if it does not fit (a bug).
size_t order_encode(const struct order *order, void *room, size_t size);
size_t answer_encode(const struct answer *answer, void *room, size_t size);
// INVALID bad_order for anything but exactly one well-formed message with values in range.
fallible order_decode(const void *bytes, size_t len, struct order *out);
fallible answer_decode(const void *bytes, size_t len, struct answer *out);
const char *order_word(enum order_kind kind); // "build"
bool order_is_layer(struct str name);	      // ORDER_LAYERS and its digits
bool order_is_trace(struct str text);	      // short enough, printable ASCII
int order_brings(const struct order *order);  // fds that are sent with it: 0 or 1
int order_fds(enum order_kind kind);	      // fds of its DONE answer, see answer_fds()
// fds of this answer: those of its kind, join_count more with CGROUP, two with `net`.
#define ORDER_NET_FDS 2 // listener, UDP
int answer_fds(const struct answer *answer);
