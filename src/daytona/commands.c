// A task follows each running command to its end, and one per session drops the records with the
// run of the sandbox. A command that takes input reads a FIFO in the sandbox's /tmp, which it has
// opened for reading and writing: so it never sees an end, as with Daytona.
#include "daytona/commands.h"

#include "base/mem.h"
#include "base/secret.h"
#include "box/session_record.h"
#include "protocol/shell.h"

#define FIFO_PREFIX "/tmp/.cove-input-"
#define FIFO_MS 10000
#define SHELL_KEY_MAX 1024

// The commands of one session.
struct shell_commands {
	struct map *all; // of the gateway
	char *key;
	struct entry *entry;
	struct box *box; // the run of the sandbox that the session belongs to; compared only
	struct link list;
	size_t count;
	struct task *task;
	bool is_deleted;
};

struct command_table *command_table_of(const struct http *x)
{
	struct gateway *gateway = gateway_of(x);

	if (!gateway->commands) {
		gateway->commands = mem_new_of(struct command_table);
		gateway->commands->sessions = map_new();
		link_init(&gateway->commands->ptys);
	}
	return gateway->commands;
}

static struct map *commands_of(const struct http *x)
{
	return command_table_of(x)->sessions;
}

static void command_ref(struct command *command)
{
	command->refs++;
}

void command_unref(struct command *command)
{
	if (--command->refs > 0)
		return;
	if (command->run)
		session_run_drop(command->run);
	if (command->is_left)
		tape_leave(command->tape);
	tape_unref(command->tape);
	entry_unref(command->entry);
	free(command->user);
	free(command->text);
	free(command);
}

static void command_unlist(struct shell_commands *shell, struct command *command)
{
	link_drop(&command->link);
	command->is_listed = false;
	shell->count--;
	command_unref(command);
}

static struct shell_commands *shell_commands_find(const struct http *x, const struct box_ref *ref,
						  struct str session)
{
	auto_buf key = BUF_INIT(SHELL_KEY_MAX);
	struct shell_commands *shell;

	buf_fmt(&key, "%s/", ref->entry->record.id);
	buf_str(&key, session);
	shell = buf_ok(&key) ? map_get(commands_of(x), buf_view(&key)) : NULL;
	return shell && shell->box == ref->entry->box ? shell : NULL;
}

static void shell_commands_task(void *arg)
{
	struct shell_commands *shell = arg;
	auto_err err = NULL;

	while (!err && shell->entry->box == shell->box && box_is_alive(shell->box))
		err = condition_wait(&shell->entry->changed, CLOCK_NEVER);
	if (map_get(shell->all, str_of(shell->key)) == shell)
		map_take(shell->all, str_of(shell->key));
	list_each (at, &shell->list) {
		struct command *command = link_of(at, struct command, link);

		command->is_left = !shell->is_deleted && (err || shell->entry->manager->closing);
		command_unlist(shell, command);
	}
	entry_unref(shell->entry);
	free(shell->key);
	free(shell);
}

static struct shell_commands *shell_commands_of(const struct http *x, const struct box_ref *ref,
						struct str session)
{
	struct shell_commands *shell = shell_commands_find(x, ref, session);
	auto_buf key = BUF_INIT(SHELL_KEY_MAX);

	if (shell)
		return shell;
	buf_fmt(&key, "%s/", ref->entry->record.id);
	buf_str(&key, session);
	map_take(commands_of(x), buf_view(&key)); // of an earlier run: its task is about to end
	shell = mem_new_of(struct shell_commands);
	shell->all = commands_of(x);
	shell->key = mem_str(key.at);
	shell->entry = ref->entry;
	shell->box = ref->entry->box;
	entry_ref(shell->entry);
	link_init(&shell->list);
	map_put(shell->all, buf_view(&key), shell);
	shell->task = task_start(gateway_of(x)->loop, "daytona.session", shell_commands_task,
				 shell);
	return shell;
}

bool commands_know(const struct http *x, const struct box_ref *ref, struct str session)
{
	return shell_commands_find(x, ref, session) != NULL;
}

void commands_keep(const struct http *x, const struct box_ref *ref, struct str session)
{
	shell_commands_of(x, ref, session);
}

void commands_forget(const struct http *x, const struct box_ref *ref, struct str session)
{
	struct shell_commands *shell = shell_commands_find(x, ref, session);

	if (!shell)
		return;
	map_take(shell->all, str_of(shell->key));
	shell->is_deleted = true;
	task_cancel(shell->task);
}

// ------------------------------------------------------------------------------------- the command

const char *command_input(const struct http *x, const struct command *command)
{
	return arena_fmt(x->arena, FIFO_PREFIX "%s", command->id);
}

// Without a FIFO the command reads end-of-file, and input is refused.
static fallible input_make(const struct http *x, struct command *command)
{
	const char *argv[] = {"mkfifo", "-m", "600", "--", command_input(x, command), NULL};
	struct manager_exec_spec spec = {.argv = argv, .wall_ms = FIFO_MS};
	struct exec_result result;
	auto_manager_exec made = NULL;

	TRY(manager_exec_start(gateway_of(x)->manager, gateway_who(x),
			       str_of(command->entry->record.id), &spec, &made));
	TRY(manager_exec_wait(made, &result));
	command->takes_input = result.exit_code == 0;
	return OK;
}

// A sandbox that is gone has taken the FIFO along.
static void input_remove(const struct command *command, struct loop *loop)
{
	auto_buf path = BUF_INIT(256);
	struct files files = {
		.box = command->entry->box,
		.user = command->user,
		.deadline = loop_now(loop) + FIFO_MS,
	};

	if (!command->takes_input || !entry_is_alive(command->entry))
		return;
	buf_fmt(&path, FIFO_PREFIX "%s", command->id);
	err_free(files_remove(&files, path.at, false));
}

// The next daemon knows the end before anybody is told of it.
static void command_seal(const struct command *command)
{
	struct tape_ending ending = {
		.ended_ms = clock_wall_ms(),
		.exit_code = command->exit_code,
	};

	if (tape_is_named(command->tape))
		err_free(tape_seal(command->tape, &ending));
}

static void command_task(void *arg)
{
	struct command *command = arg;
	struct session_result result = {.exit_code = -1};
	auto_err err = session_run_wait(command->run, CLOCK_NEVER, &result);

	command->exit_code = err ? -1 : result.exit_code;
	if (!err && result.end == SESSION_DESTROYED)
		command->exit_code = 137;
	if (!err)
		input_remove(command, task_loop());
	if (!err)
		command_seal(command);
	command->is_over = true;
	condition_signal(&command->ended);
	command_unref(command);
}

fallible command_wait(struct command *command)
{
	while (!command->is_over)
		TRY(condition_wait(&command->ended, CLOCK_NEVER));
	return OK;
}

static fallible command_run(const struct http *x, const struct box_ref *ref,
			    struct session *session, struct command *command)
{
	auto_buf text = BUF_INIT(4 * (strlen(command->text) + 1024));
	struct manager_exec_spec spec = {.command = command->text};
	struct tape_label label = {.id = str_of(command->id), .command = str_of(command->text)};
	struct session_job job;

	if (command->takes_input) {
		buf_text(&text, "eval ");
		shell_quote(&text, str_of(command->text));
		buf_fmt(&text, " 0<>%s", command_input(x, command));
		spec.command = text.at;
	}
	job = shells_job(ref, &spec);
	job.record = &label;
	TRY(session_run(session, &job, &command->run));
	command->tape = session_run_tape(command->run);
	tape_ref(command->tape);
	tape_begin(command->tape);
	return OK;
}

static void command_list(struct shell_commands *shell, struct command *command)
{
	link_add(&shell->list, &command->link);
	command->is_listed = true;
	command_ref(command);
	shell->count++;
	list_each (at, &shell->list) {
		struct command *oldest = link_of(at, struct command, link);

		if (shell->count <= COMMANDS_ENDED_MAX)
			break;
		if (oldest->is_over)
			command_unlist(shell, oldest);
	}
}

fallible commands_start(const struct http *x, const struct box_ref *ref, struct session *session,
			const struct commands_spec *spec, struct command **out)
{
	struct command *command = mem_new_of(struct command);
	struct err *err = NULL;

	command->refs = 1;
	command->entry = ref->entry;
	entry_ref(command->entry);
	command->user = mem_str(ref->entry->record.user);
	command->text = mem_str(arena_dup(x->arena, spec->text.at, spec->text.len));
	condition_init(&command->ended);
	secret_hex(command->id, COMMAND_ID_LEN / 2);
	if (spec->takes_input)
		err = input_make(x, command);
	if (!err)
		err = command_run(x, ref, session, command);
	if (err) {
		command_unref(command);
		return err;
	}
	command_list(shell_commands_of(x, ref, str_of(session_id(session))), command);
	command_ref(command);
	task_start(gateway_of(x)->loop, "daytona.command", command_task, command);
	*out = command;
	return OK;
}

struct recovering {
	const struct http *x;
	const struct box_ref *ref;
};

static void command_recover(void *arg, const struct session_record *record)
{
	const struct recovering *recovering = arg;
	struct command *command;

	if (record->id.len != COMMAND_ID_LEN || !record->session.len) {
		tape_unref(record->tape);
		return;
	}
	command = mem_new_of(struct command);
	command->refs = 1;
	command->entry = recovering->ref->entry;
	entry_ref(command->entry);
	command->user = mem_str("");
	command->text = mem_dup(record->command.at, record->command.len);
	memcpy(command->id, record->id.at, COMMAND_ID_LEN);
	command->tape = record->tape;
	command->is_over = true;
	command->exit_code = record->exit_code;
	condition_init(&command->ended);
	command_list(shell_commands_of(recovering->x, recovering->ref, record->session), command);
	command_unref(command);
}

fallible commands_recover(const struct http *x, const struct box_ref *ref)
{
	struct recovering recovering = {x, ref};
	struct session_record_reader reader = {command_recover, &recovering};

	return session_records_take(ref->box, &reader);
}

fallible commands_find(const struct http *x, const struct box_ref *ref, struct str session,
		       struct str id, struct command **out)
{
	struct shell_commands *shell = shell_commands_find(x, ref, session);

	if (shell)
		list_each (at, &shell->list) {
			struct command *command = link_of(at, struct command, link);

			if (!str_is(id, command->id))
				continue;
			command_ref(command);
			*out = command;
			return OK;
		}
	return err_absent("no_command", "command", id);
}

void commands_each(const struct http *x, const struct box_ref *ref, struct str session,
		   void (*each)(const struct command *command, void *arg), void *arg)
{
	struct shell_commands *shell = shell_commands_find(x, ref, session);

	if (shell)
		list_each (at, &shell->list)
			each(link_of(at, struct command, link), arg);
}
