// Adopts a box that outlived the previous daemon (docs/ISOLATION.md END-7). The warden knows that
// the box lives and which exec cgroups exist. pid 1 knows the running commands, their fds and their
// labels (protocol/exec_label.h). The disk has output (tapes), recorded ends and state files.
//
// Steps: ADOPT to the warden; connect to pid 1; ADOPT to pid 1, which lists what it holds; pause
// the channel; processes, terminals, sessions and contexts take what is theirs; the rest runs on
// with its output dropped; resume the channel. No output is lost or doubled: bytes that are not on
// a tape are still in their pipe (tape_write.c). pid 1 keeps an end until it is on record here. All
// that pid 1 says is hostile. A failure frees memory only: the box can be adopted again.
//
// syscalls: fcntl close openat getdents64 fstat newfstatat unlinkat
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "box/box_file.h"
#include "box/exec_cgroup.h"
#include "box/exec_message.h"
#include "box/session_record.h"
#include "box/unit.h"
#include "loop/closer.h"
#include "loop/dial.h"
#include "loop/offload.h"
#include "os/fd.h"

#define NAMES_MAX 65536 // names in a box's folder: more than processes, cells and sessions can have

static const struct unit_kind *const unit_kinds[UNIT_TYPES] = {
	&proc_kind,
	&term_kind,
	&session_kind,
	&context_kind,
};

struct listing {
	int dir;
	const char *name;
	struct adoption *out;
	int errnum;
};

static void box_adopt_list_run(void *arg)
{
	struct listing *listing = arg;
	struct adoption *out = listing->out;
	int fd = openat(listing->dir, listing->name,
			O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *list = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *entry = NULL;

	if (!list && errno != ENOENT)
		listing->errnum = errno;
	if (fd >= 0 && !list)
		close(fd);
	errno = 0;
	while (list && out->name_count < NAMES_MAX && (entry = readdir(list))) {
		out->names = mem_grow(out->names, out->name_count + 1, sizeof(char *));
		out->names[out->name_count++] = mem_str(entry->d_name);
		errno = 0;
	}
	if (list && (errno || out->name_count == NAMES_MAX))
		listing->errnum = errno ? errno : E2BIG;
	if (list)
		closedir(list);
}

// A folder that cannot be read is an error, not an empty folder: its records were promised to
// clients.
static fallible list_folder(struct adoption *adoption)
{
	struct box *box = adoption->box;
	struct listing listing = {box->tapes_dir, box->id, adoption, 0};

	offload_run(box_adopt_list_run, &listing);
	box->has_folder = adoption->name_count > 0;
	if (listing.errnum == EMFILE || listing.errnum == ENFILE)
		return ask_no_files();
	return listing.errnum ? err_sys(listing.errnum, "list the folder of %s", box->id) : OK;
}

// Asks the warden for the box's exec cgroups and counters.
static fallible order_adopt(struct adoption *adoption, int64_t deadline)
{
	auto_free struct answer *answer = mem_new_of(struct answer);
	struct box *box = adoption->box;
	struct order order = {.kind = ORDER_ADOPT};
	int none[ORDER_FDS_MAX];

	memcpy(order.box, box->id, sizeof(order.box));
	TRY(ask_order(box->ask, &order, answer, none, deadline));
	memcpy(adoption->spent, answer->spent, sizeof(adoption->spent));
	for (uint32_t i = 0; i < answer->exec_cgroups && i < TALK_CGROUPS_MAX; i++)
		if (!cgroup_is_spent(answer->spent, i))
			box_exec_cgroup_left(box, i, true);
	box->unseen = true;
	return OK;
}

static fallible connect_to(struct box *box, const char *sockets, int64_t deadline)
{
	auto_free char *path = mem_fmt("%s/%s", sockets, box->id);
	int fd;

	TRY(dial_local_fd(path, deadline, &fd));
	return channel_open(&box->channel, box->loop, fd);
}

// Waits until pid 1 has listed everything that it holds.
static fallible await_held(struct adoption *adoption, int64_t deadline)
{
	struct box *box = adoption->box;
	struct talk talk = {.kind = TALK_ADOPT};

	while (box->phase == BOX_GREETING)
		TRY(condition_wait(&box->greeted, deadline), "wait for pid 1");
	if (box->phase != BOX_ALIVE || !(box->features & TALK_CAN_RETURN))
		return exec_message_box_lost();
	channel_say(&box->channel, &talk);
	while (!adoption->ended && !adoption->no_files && box->phase == BOX_ALIVE)
		TRY(condition_wait(&adoption->condition, deadline), "wait for the list of pid 1");
	if (adoption->no_files)
		return ask_no_files();
	return box->phase == BOX_ALIVE ? OK : exec_message_box_lost();
}

static struct box_cgroup *known_cgroup(const struct box *box, uint32_t number)
{
	list_each (at, &box->exec_cgroups) {
		struct box_cgroup *exec_cgroup = link_of(at, struct box_cgroup, all);

		if (exec_cgroup->number == number)
			return exec_cgroup;
	}
	return NULL;
}

// Takes the cgroups in which held commands run. A spent cgroup was killed, or was about to be when
// the warden died: kill it now, before its number can be reused.
static fallible find_cgroups(struct adoption *adoption)
{
	struct box *box = adoption->box;

	list_each (at, &adoption->helds) {
		struct adoptee *adoptee = link_of(at, struct adoptee, link);
		uint32_t number = adoptee->talk.held.exec_cgroup;
		struct box_cgroup *exec_cgroup = known_cgroup(box, number);

		if (adoptee->talk.held.ended)
			continue;
		if (exec_cgroup)
			return err_new(BAD_PEER, "bad_cgroup", "two commands in cgroup %u", number);
		if (cgroup_is_spent(adoption->spent, number)) {
			exec_cgroup = box_exec_cgroup_add(box, number, -1, NULL, 0);
			exec_cgroup->spent = true;
		} else {
			TRY(box_exec_cgroup_again(box, number, &exec_cgroup));
		}
		exec_cgroup->taken = true;
		adoptee->exec_cgroup = exec_cgroup;
		if (exec_cgroup->spent)
			TRY(box_exec_cgroup_kill_spent(exec_cgroup));
	}
	return OK;
}

// The counter of OOM kills comes with a cgroup: how a command ended while no daemon was there is
// judged by it. Without it a kill by the kernel would be taken for a signal, so adoption waits for
// the warden.
static fallible find_oom_counter(struct adoption *adoption)
{
	struct box *box = adoption->box;
	struct box_cgroup *exec_cgroup = NULL;
	bool wanted = false;
	struct err *err;
	int tries = 0;

	list_each (at, &adoption->helds)
		wanted |= link_of(at, struct adoptee, link)->talk.held.ended;
	if (!wanted || box->oom >= 0)
		return OK;
	err = ask_unanswered(box_exec_cgroup_take(box, &tries, &exec_cgroup));
	if (!err)
		box_exec_cgroup_give(exec_cgroup, true);
	else if (err_kind(err) == ERR_UNAVAILABLE)
		return err;
	else
		log_event(LOG_WARN, "box.no_oom_counter", "sandbox", box->id, "trail",
			  err_trail(err), NULL);
	err_free(err);
	return OK;
}

// Commands whose clients are gone run on. A shell or terminal without a record is useless, and is
// killed.
static fallible take_rest(struct adoption *adoption)
{
	while (!link_empty(&adoption->helds)) {
		struct adoptee *adoptee = link_of(adoption->helds.next, struct adoptee, link);
		uint32_t flags = adoptee->talk.held.flags;
		struct exec *exec = NULL;

		TRY(adoptee_take(adoptee, adoption->box, NULL, &exec));
		exec_filed(exec);
		if (flags & (TALK_EXEC_DIALOGUE | TALK_EXEC_PTY))
			exec_kill(exec);
		exec_unref(exec);
	}
	return OK;
}

static fallible box_adopt_take_all(struct adoption *adoption)
{
	TRY(ask_unanswered(find_cgroups(adoption)), "find the exec cgroups");
	TRY(find_oom_counter(adoption), "find the counter of OOM kills");
	TRY(list_folder(adoption));
	for (size_t i = 0; i < UNIT_TYPES; i++)
		TRY(units_adopt(adoption, unit_kinds[i]), "adopt each %s", unit_kinds[i]->name);
	return take_rest(adoption);
}

static fallible box_adopt_adopt(struct adoption *adoption, const struct box_return *from)
{
	struct box *box = adoption->box;
	int64_t deadline = loop_now(box->loop) + BOX_ADOPT_MS;
	struct err *err;

	TRY(ask_unanswered(order_adopt(adoption, deadline)), "ask the warden");
	TRY(connect_to(box, from->sockets, deadline), "connect to pid 1");
	TRY(await_held(adoption, deadline));
	kill_point("daemon.box_held", NULL);
	task_shield(true); // from here on adoption completes or is undone
	err = box_adopt_take_all(adoption);
	task_shield(false);
	TRY(err);
	if (!box_is_alive(box))
		return exec_message_box_lost();
	kill_point("daemon.box_adopted", NULL);
	channel_pause(&box->channel, false);
	box_sync_adopted(box);
	return OK;
}

// Waits for splices to tapes that are under way: the next try opens the same files.
static void await_tapes(struct box *box)
{
	struct link *at = box->execs.next;

	while (at != &box->execs) {
		struct exec *exec = link_of(at, struct exec, link);

		pipes_close(&exec->pipes);
		exec_ref(exec);
		if (exec->tape)
			tape_await_idle(exec->tape);
		at = exec->state != EXEC_FORGOTTEN ? at->next : &box->execs;
		exec_let_go(exec);
	}
}

// Frees memory only. Nothing in the box or on disk ends: another try may adopt it.
void box_abandon(struct box *box)
{
	channel_close(&box->channel);
	box->has_folder = false;
	box->abandoned = true;
	if (box->phase < BOX_BROKEN)
		box->phase = BOX_LOST;
	for (int i = 0; i < UNIT_TYPES; i++)
		list_each (at, &box->units[i].all) {
			struct unit *unit = link_of(at, struct unit, link);

			if (unit->kind->abandon)
				unit->kind->abandon(unit);
		}
	await_tapes(box);
	exec_end_all(box);
	box_end_kinds(box, BOX_END_LEFT);
	box_unref(box);
}

fallible box_adopt(struct loop *loop, struct ask *ask, const struct box_return *from,
		   struct box **out)
{
	struct box *box = box_new(loop, ask, from->id, from->tapes_dir);
	struct adoption *adoption = adoption_new(box);
	struct err *err;

	box->at.ephemeral = from->ephemeral;
	err = box_adopt_adopt(adoption, from);

	box->adoption = NULL;
	adoption_free(adoption);
	if (!err) {
		*out = box;
		return OK;
	}
	box_abandon(box);
	return err_while(err, "adopt %s", from->id);
}

// Removes the files of a kind that ended with the box.
static void remove_files(struct adoption *adoption, const struct unit_kind *kind)
{
	struct units *units = &adoption->box->units[kind->type];

	const char letters[] = {kind->letter, kind->tape_letter, 0};

	for (const char *letter = letters; *letter; letter++) {
		auto_free uint32_t *numbers = adoption_numbers(adoption, *letter);

		for (const uint32_t *at = numbers; *at; at++)
			box_file_remove_later(adoption->box, *letter, *at);
		if (numbers[0] > units->files)
			units->files = numbers[0];
	}
	if (kind == &session_kind)
		session_records_remove(adoption);
}

fallible box_recover(struct box *box)
{
	struct adoption *adoption = adoption_new(box);
	struct err *err;

	err = list_folder(adoption);
	for (size_t i = 0; i < UNIT_TYPES && !err; i++)
		if (unit_kinds[i]->is_recorded)
			err = units_adopt(adoption, unit_kinds[i]);
		else
			remove_files(adoption, unit_kinds[i]);
	box->adoption = NULL;
	adoption_free(adoption);
	return err;
}
