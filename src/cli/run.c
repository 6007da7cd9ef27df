// run, exec, shell, attach. run creates a box, runs the command, removes the box, and exits with
// the command's status; the box is removed also after Ctrl-C. Other statuses: 124 timeout, 125 cove
// failed, 126 not executable, 127 not found.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/agent.h"
#include "cli/body.h"
#include "cli/image.h"
#include "cli/interrupt.h"
#include "cli/jobs.h"
#include "cli/print.h"
#include "cli/remote.h"
#include "cli/screen.h"
#include "cli/status.h"
#include "cli/stdio.h"
#include "cli/temporary_box.h"
#include "codec/text.h"

#define PIECE (64 * 1024)
#define IMAGE_FILE "/.cove-image.json" // see types/image.h
#define IMAGE_WORDS_MAX 1024

// -i with --json: our whole stdin. It is part of one request, so its size is bounded.
static fallible cli_run_read_input(const struct call *call, struct buf *input, struct body *body)
{
	bool fits = true;

	if (!call_has(call, OPT_INTERACTIVE) || !call_has(call, OPT_JSON))
		return OK;
	TRY(stdio_read_all(STDIN_FILENO, input, &fits), "read standard input");
	if (!fits || input->len > BODY_INPUT_MAX)
		return err_hint(
			err_new(TOO_LARGE, "stdin_too_large", "standard input exceeds 1 MiB"),
			"without --json there is no limit");
	body->command.input = input->at ? input->at : "";
	body->command.input_len = input->len;
	return OK;
}

static fallible cli_run_follow(struct call *call, struct remote *remote, struct cove_box *box,
			       const struct cove_command *command)
{
	struct err *err = OK;
	struct cove_exec_options options = {
		.command = *command,
		.sink = jobs_sink(&err),
		.bare = true,
	};
	struct cove_result result;
	enum cove_kind kind = cove_exec(box, &options, &result, &remote->error);

	if (kind && strcmp(remote->error.reason, "still_running") == 0)
		print_note("%s", remote->error.message);
	TRY(err);
	TRY(remote_did(remote, kind));
	return status_take(call, &result);
}

static void cli_run_put_text(struct json_out *out, const char *key, const char *text, size_t len,
			     bool base64)
{
	auto_buf coded = BUF_INIT(REMOTE_REPLY_MAX);

	if (!base64) {
		json_put_str(out, key, (struct str){text, len});
		return;
	}
	text_base64(&coded, text, len);
	json_put_str(out, key, coded.at ? buf_view(&coded) : STR(""));
}

static bool is_text(const char *text, size_t len)
{
	return text_is_utf8((struct str){text, len}) && !memchr(text, 0, len);
}

static void print_output(const struct cove_output *output)
{
	auto_buf text = BUF_INIT(REMOTE_REPLY_MAX);
	struct json_out out = json_to(&text);
	const struct cove_result *result = &output->result;
	bool base64 = !is_text(output->out, output->out_len) ||
		      !is_text(output->err, output->err_len);

	json_begin(&out, '{');
	json_put_bool(&out, "success", result->exit_code == 0);
	json_put_int(&out, "exitCode", result->exit_code);
	cli_run_put_text(&out, "stdout", output->out, output->out_len, base64);
	cli_run_put_text(&out, "stderr", output->err, output->err_len, base64);
	json_put_text(&out, "encoding", base64 ? "base64" : "utf8");
	json_put_text(&out, "ended", result->ended);
	json_put_int(&out, "durationMs", result->duration_ms);
	json_put_int(&out, "cpuMs", result->cpu_ms);
	json_put_int(&out, "maxRssBytes", (int64_t)result->max_rss);
	json_put_bool(&out, "stdoutTruncated", result->stdout_truncated);
	json_put_bool(&out, "stderrTruncated", result->stderr_truncated);
	json_end(&out, '}');
	print_json(buf_view(&text));
}

static fallible cli_run_whole(struct call *call, struct remote *remote, struct cove_box *box,
			      const struct cove_command *command)
{
	on_exit_call(cove_output_free) struct cove_output output = {0};

	TRY(remote_did(remote, cove_exec_output(box, command, &output, &remote->error)));
	print_output(&output);
	TRY(status_whole(&output.result));
	call->exit = output.result.exit_code;
	return OK;
}

static fallible check_ways(const struct call *call)
{
	bool tty = call_has(call, OPT_TTY), detach = call_has(call, OPT_DETACH);

	if (detach && (tty || call_has(call, OPT_INTERACTIVE)))
		return err_new(INVALID, "two_ways", "-d cannot be combined with -i or -t");
	if (tty && call_has(call, OPT_JSON))
		return err_new(INVALID, "two_ways", "-t cannot be combined with --json");
	if (tty && call_has(call, OPT_INTERACTIVE) && !isatty(STDIN_FILENO))
		return err_hint(err_new(INVALID, "no_terminal", "standard input is not a terminal"),
				"leave -t out");
	return OK;
}

// -t: on a terminal, which `attach` can use while the command runs.
static fallible on_terminal(struct call *call, struct remote *remote, struct cove_box *box,
			    const struct cove_command *command)
{
	const char *const by_line[] = {"bash", "-c", command->line, NULL};
	struct cove_terminal_options options = {
		.argv = command->line ? by_line : command->argv,
		.cwd = command->cwd,
		.user = command->user,
		.env = command->env,
	};

	return screen_run(call, remote, box, &options, call_has(call, OPT_INTERACTIVE));
}

// Runs the command in the requested way; the status goes to call->exit.
static fallible conduct(struct call *call, struct remote *remote, struct cove_box *box,
			const struct body *body)
{
	bool json = call_has(call, OPT_JSON);

	if (call_has(call, OPT_DETACH))
		return jobs_start(call, remote, box, body);
	if (call_has(call, OPT_TTY))
		return on_terminal(call, remote, box, &body->command);
	if (call_has(call, OPT_INTERACTIVE) && !json)
		return jobs_talk(call, remote, box, body);
	return json ? cli_run_whole(call, remote, box, &body->command)
		    : cli_run_follow(call, remote, box, &body->command);
}

fallible run_exec(struct call *call)
{
	auto_body body = {0};
	auto_buf input = BUF_INIT(BODY_INPUT_MAX + 2 * PIECE);
	auto_remote remote = {0};
	auto_cove_box box = NULL;
	char **argv = call->words + 1;

	if (*argv && strcmp(*argv, "--") == 0)
		argv++;
	TRY(check_ways(call));
	TRY(body_command(call, argv, true, &body));
	TRY(cli_run_read_input(call, &input, &body));
	TRY(remote_open(&remote, call));
	interrupt_arm(remote.cove);
	interrupt_saying("cove: the command may still run in the sandbox\n");
	box = cove_box_at(remote.cove, call->words[0]);
	return status_end(call, conduct(call, &remote, box, &body));
}

fallible run_shell(struct call *call)
{
	auto_body body = {0};
	auto_remote remote = {0};
	auto_cove_box box = NULL;
	const char *const shell[] = {call->word_count > 1 ? call->words[1] : "bash", NULL};
	struct cove_terminal_options options = {
		.argv = shell,
		.cwd = call_value(call, OPT_WORKDIR),
		.user = call_value(call, OPT_USER),
	};

	if (!isatty(STDIN_FILENO))
		return err_hint(err_new(INVALID, "no_terminal", "standard input is not a terminal"),
				"cove exec -i BOX bash");
	TRY(body_env(call, &body));
	options.env = body.command.env;
	TRY(remote_open(&remote, call));
	box = cove_box_at(remote.cove, call->words[0]);
	return status_end(call, screen_run(call, &remote, box, &options, true));
}

static int cli_run_keep_last(void *arg, const struct cove_terminal_info *info)
{
	char **last = arg;

	if (!info->ended) {
		free(*last);
		*last = mem_str(info->id);
	}
	return 0;
}

// The named terminal, else the one opened last; owned by the caller.
static fallible cli_run_choose(struct call *call, struct remote *remote, struct cove_box *box,
			       char **out)
{
	auto_free char *last = NULL;

	if (call->word_count > 1) {
		*out = mem_str(call->words[1]);
		return OK;
	}
	TRY(remote_did(remote, cove_terminal_list(box, cli_run_keep_last, &last, &remote->error)));
	if (!last)
		return err_hint(err_new(NOT_FOUND, "no_terminal", "there is no terminal"),
				"'cove shell %s' opens one", call->words[0]);
	*out = take_ptr(last);
	return OK;
}

fallible run_attach(struct call *call)
{
	auto_remote remote = {0};
	auto_cove_box box = NULL;
	auto_free char *id = NULL;
	auto_cove_process process = NULL;
	struct cove_terminal_options options = {.existing = true};

	TRY(remote_open(&remote, call));
	interrupt_arm(remote.cove);
	box = cove_box_at(remote.cove, call->words[0]);
	TRY(cli_run_choose(call, &remote, box, &id));
	if (call->word_count > 1 && jobs_has(box, id)) {
		process = cove_process_at(box, id);
		return status_end(call, jobs_watch(call, &remote, process));
	}
	options.id = id;
	return status_end(call, screen_run(call, &remote, box, &options, isatty(STDIN_FILENO)));
}

static void free_words(char ***argv)
{
	mem_free_list(*argv);
}

static void add_words(const struct json *array, char **argv, size_t *count)
{
	for (size_t i = 0; array && i < json_count(array) && *count < IMAGE_WORDS_MAX; i++) {
		struct str word = json_chars(json_at(array, i));

		argv[(*count)++] = mem_dup(word.at, word.len);
	}
}

// Entrypoint and Cmd of the box's image; owned by the caller.
static fallible image_command(struct remote *remote, struct cove_box *box, char ***out)
{
	auto_free char *text = NULL;
	auto_json config = NULL;
	size_t len = 0, count = 0;
	enum cove_kind kind = COVE_NOT_FOUND;
	char **argv = mem_new((IMAGE_WORDS_MAX + 1) * sizeof(*argv));

	*out = argv;
	TRY(image_words(remote, box, &config));
	if (!config)
		kind = cove_read_file(box, IMAGE_FILE, &text, &len, &remote->error);
	if (kind && kind != COVE_NOT_FOUND)
		return remote_did(remote, kind);
	if (!kind)
		TRY(json_read((struct str){text, len}, &config));
	if (config) {
		add_words(json_get(config, "Entrypoint"), argv, &count);
		add_words(json_get(config, "Cmd"), argv, &count);
	}
	if (count)
		return OK;
	return err_hint(err_new(INVALID, "no_command", "the image names no command to run"),
			"cove run --template NAME [--] COMMAND [ARG...]");
}

static fallible in_fresh(struct call *call, struct remote *remote, struct cove_box *box, void *arg)
{
	on_exit_call(free_words) char **argv = NULL;
	struct body *body = arg;

	if (!body->command.argv && !body->command.line) {
		TRY(image_command(remote, box, &argv));
		body->command.argv = (const char *const *)argv;
	}
	return conduct(call, remote, box, body);
}

fallible run_run(struct call *call)
{
	auto_body body = {0};
	auto_buf input = BUF_INIT(BODY_INPUT_MAX + 2 * PIECE);

	if (call_has(call, OPT_SYNC))
		return cli_agent_run_sync(call);
	if (call_has(call, OPT_WORKTREE))
		return err_new(INVALID, "two_ways", "--worktree needs --sync");
	if (call_has(call, OPT_KEEP) && call_has(call, OPT_RM))
		return err_new(INVALID, "keep_or_rm", "--keep and --rm contradict each other");
	TRY(check_ways(call));
	TRY(body_box(call, &body));
	body.box.ephemeral = !call_has(call, OPT_KEEP);
	// The image may have a command.
	body.may_lack_command = body.box.image ||
				(body.box.from && strcmp(body.box.from, "host") != 0);
	TRY(body_command(call, call->words, false, &body));
	TRY(cli_run_read_input(call, &input, &body));
	TRY(image_prepare(call));
	return temporary_box_run(call, &body.box, in_fresh, &body);
}
