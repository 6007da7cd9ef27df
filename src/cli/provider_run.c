// The command is in a session of its own, started by a shell that outlives the caller and writes
// its status. Output is read from offsets, so that a caller who comes back misses nothing. A read
// waits up to two seconds for the next byte.
#include "cli/provider_run.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/interrupt.h"
#include "codec/text.h"

#define PIECE_MAX (1u << 20) // of base64; the scripts send 256 KiB of each stream
#define LOST_TRIES 6
#define LOST_MS 250
#define NO_RUN 97
#define NO_DIRECTORY 98

// The first argument of every script is the directory of the copy.
#define RUNS "r=${1%/*}/.cove-agent/runs; shift\n"
#define RUN RUNS "d=$r/$1\n"

void provider_run_done(struct provider_run *run)
{
	cove_process_free(take_ptr(run->process));
	buf_done(&run->bytes);
	buf_done(&run->next);
}

static fallible provider_run_exec(struct sync_box *box, const struct cove_command *command,
				  struct cove_output *out)
{
	return box->provider->exec(box, command, out);
}

// The arguments after the name of the script are those of the caller.
static const char **provider_run_words(const char *script, const char *const *first,
				       const char *const *rest)
{
	size_t count = 5;
	const char **words;

	for (size_t i = 0; first[i]; i++)
		count++;
	for (size_t i = 0; rest && rest[i]; i++)
		count++;
	words = mem_new(count * sizeof(*words));
	count = 0;
	words[count++] = "sh";
	words[count++] = "-c";
	words[count++] = script;
	words[count++] = "run";
	for (size_t i = 0; first[i]; i++)
		words[count++] = first[i];
	for (size_t i = 0; rest && rest[i]; i++)
		words[count++] = rest[i];
	words[count] = NULL;
	return words;
}

fallible provider_run_start(struct provider_run *run, const struct cove_command *command,
			    const char *const *argv)
{
	// clang-format off
	static const char script[] =
		RUN
		"umask 077; mkdir -p \"$r\" && mkdir \"$d\" && : >\"$d/o\" && : >\"$d/e\" || exit 1\n"
		"umask 022; t=$2; cd \"$3\" || exit 98\n"
		"date -u +%Y-%m-%dT%H:%M:%SZ >\"$d/began\"\n"
		"shift 3\n"
		"setsid sh -c '\n"
		" d=$1 t=$2 w=; shift 2\n"
		" setsid \"$@\" </dev/null >\"$d/o\" 2>\"$d/e\" &\n"
		" p=$!; echo $p >\"$d/p\"\n"
		" [ \"$t\" = 0 ] || { setsid sh -c \"sleep $t; echo wall_limit >\\\"\\$1/w\\\"; "
		"kill -TERM -$p; sleep 2; kill -KILL -$p\" limit \"$d\" & w=$!; }\n"
		" wait $p; s=$?\n"
		" [ ! -e \"$d/w\" ] || kill -KILL -$p\n"
		" [ -z \"$w\" ] || kill -KILL -$w\n"
		" date -u +%Y-%m-%dT%H:%M:%SZ >\"$d/ended\"\n"
		" echo $s >\"$d/x~\"; mv \"$d/x~\" \"$d/x\"\n"
		"' run \"$d\" \"$t\" \"$@\" </dev/null >/dev/null 2>&1 &\n";
	// clang-format on
	char seconds[32];
	const char *const first[] = {run->box->home, run->id, seconds, command->cwd, NULL};
	auto_free const char **words = provider_run_words(script, first, argv);
	on_exit_call(cove_output_free) struct cove_output output = {0};
	struct cove_command start = {.argv = words, .cwd = "/", .env = command->env};

	if (command->timeout_ms)
		snprintf(seconds, sizeof(seconds), "%lld.%03lld",
			 (long long)command->timeout_ms / 1000,
			 (long long)command->timeout_ms % 1000);
	else
		snprintf(seconds, sizeof(seconds), "0");
	TRY(provider_run_exec(run->box, &start, &output));
	if (output.result.exit_code == NO_DIRECTORY)
		return err_new(NOT_FOUND, "no_cwd", "there is no directory '%s' in the sandbox",
			       command->cwd);
	if (output.result.exit_code)
		return err_new(BAD_PEER, "no_start", "the command cannot be started: %.200s",
			       output.err_len ? output.err : "its shell failed");
	return OK;
}

// "STATUS CAUSE", a line of base64 for each stream. STATUS is "-" while it runs.
static fallible provider_run_parse(struct provider_run *run, const struct cove_output *output,
				   struct cove_piece *out)
{
	struct str rest = {output->out, output->out_len}, status, cause, line[2];
	struct buf *to[] = {&run->bytes, &run->next};
	uint64_t code = 0;

	if (output->result.exit_code == NO_RUN)
		return err_new(GONE, "no_run", "the run is gone");
	if (output->result.exit_code || !str_cut(&rest, '\n', &cause) ||
	    !str_cut(&cause, ' ', &status) || !str_cut(&rest, '\n', &line[0]) ||
	    !str_cut(&rest, '\n', &line[1]))
		return err_new(BAD_PEER, "bad_run", "the output of the run cannot be read");
	for (size_t i = 0; i < 2; i++) {
		buf_clear(to[i]);
		if (!text_unbase64(to[i], line[i]))
			return err_new(BAD_PEER, "bad_run", "the output of the run cannot be read");
		run->at[i] += to[i]->len;
	}
	if (run->bytes.len || run->next.len || str_is(status, "-")) {
		*out = (struct cove_piece){.bytes = run->bytes.at, .len = run->bytes.len};
		return OK;
	}
	if (!str_to_u64(status, 0, 255, &code))
		return err_new(BAD_PEER, "bad_run", "the status of the run cannot be read");
	run->result.exit_code = (int)code;
	snprintf(run->result.ended, sizeof(run->result.ended), STR_FMT,
		 STR_ARG(cause.len ? cause : STR("exited")));
	*out = (struct cove_piece){.ended = true};
	return OK;
}

static fallible provider_run_poll(struct provider_run *run, struct cove_piece *out)
{
	// clang-format off
	static const char script[] =
		RUN
		"[ -e \"$d/o\" ] || exit 97\n"
		"i=0; while :; do\n"
		" x=; [ ! -e \"$d/x\" ] || x=$(cat \"$d/x\")\n"
		" o=$(wc -c <\"$d/o\") e=$(wc -c <\"$d/e\")\n"
		" [ -z \"$x\" ] && [ $o -le $2 ] && [ $e -le $3 ] && [ $i -lt 40 ] || break\n"
		" i=$((i+1)); sleep 0.05\n"
		"done\n"
		"printf '%s %s\\n' \"${x:--}\" \"$(cat \"$d/w\" 2>/dev/null)\"\n"
		"[ $o -le $2 ] || tail -c +$(($2+1)) \"$d/o\" | head -c 262144 | base64 | tr -d '\\n'\n"
		"echo\n"
		"[ $e -le $3 ] || tail -c +$(($3+1)) \"$d/e\" | head -c 262144 | base64 | tr -d '\\n'\n"
		"echo\n";
	// clang-format on
	char at[2][24];
	const char *const words[] = {"sh",    "-c",  script, "poll", run->box->home,
				     run->id, at[0], at[1],  NULL};
	on_exit_call(cove_output_free) struct cove_output output = {0};
	struct cove_command command = {.argv = words, .cwd = "/"};

	for (size_t i = 0; i < 2; i++)
		snprintf(at[i], sizeof(at[i]), "%llu", (unsigned long long)run->at[i]);
	TRY(provider_run_exec(run->box, &command, &output));
	return provider_run_parse(run, &output, out);
}

fallible provider_run_next(struct provider_run *run, struct cove_piece *out)
{
	if (!run->bytes.ceiling)
		run->bytes = run->next = (struct buf)BUF_INIT(PIECE_MAX);
	if (interrupt_signal() && !run->interrupted && !run->box->remote) {
		run->interrupted = true;
		return err_new(CANCELLED, "interrupted", "interrupted");
	}
	if (run->next.len) {
		struct buf swap = run->bytes;

		run->bytes = run->next;
		run->next = swap;
		buf_clear(&run->next);
		*out = (struct cove_piece){
			.is_stderr = true, .bytes = run->bytes.at, .len = run->bytes.len};
		return OK;
	}
	for (int i = 0;; i++) {
		struct err *err = provider_run_poll(run, out);
		struct pollfd wait = {.fd = interrupt_fd(), .events = POLLIN};

		run->interrupted |= err && err_kind(err) == ERR_CANCELLED;
		if (!err || i == LOST_TRIES || interrupt_signal() ||
		    (err_kind(err) != ERR_UNAVAILABLE && err_kind(err) != ERR_TIMEOUT &&
		     strcmp(err_reason(err), "peer_gone") != 0))
			return err;
		err_free(err);
		poll(&wait, 1, LOST_MS << i);
	}
}

fallible provider_run_stop(struct provider_run *run, bool interrupt)
{
	// clang-format off
	static const char script[] =
		RUN
		"[ -e \"$d/p\" ] || exit 97\n"
		"[ ! -e \"$d/x\" ] || exit 0\n"
		"p=$(cat \"$d/p\")\n"
		"[ $2 = 0 ] && echo killed_by_api >\"$d/w\"\n"
		"kill -TERM -$p\n"
		"i=0; while [ ! -e \"$d/x\" ] && [ $i -lt 40 ]; do i=$((i+1)); sleep 0.05; done\n"
		"kill -KILL -$p 2>/dev/null\n"
		"exit 0\n";
	// clang-format on
	const char *const words[] = {
		"sh", "-c", script, "stop", run->box->home, run->id, interrupt ? "1" : "0", NULL};
	on_exit_call(cove_output_free) struct cove_output output = {0};
	struct cove_command command = {.argv = words, .cwd = "/"};

	return provider_run_exec(run->box, &command, &output);
}

bool provider_run_has(struct sync_box *box, const char *id)
{
	static const char script[] = RUN "[ -e \"$d/o\" ]\n";
	const char *const words[] = {"sh", "-c", script, "has", box->home, id, NULL};
	on_exit_call(cove_output_free) struct cove_output output = {0};
	struct cove_command command = {.argv = words, .cwd = "/"};
	auto_err err = provider_run_exec(box, &command, &output);

	return !err && !output.result.exit_code;
}

fallible provider_run_list(struct sync_box *box, cove_process_fn *each, void *arg)
{
	// clang-format off
	static const char script[] =
		RUNS
		"cd \"$r\" 2>/dev/null || exit 0\n"
		"for d in run-*; do\n"
		" [ -e \"$d/began\" ] || continue\n"
		" printf '%s %s %s %s\\n' \"$d\" \"$(cat \"$d/began\")\" \"$(cat \"$d/ended\" 2>/dev/null || echo -)\" "
		"\"$(cat \"$d/x\" 2>/dev/null || echo -)\"\n"
		"done\n";
	// clang-format on
	const char *const words[] = {"sh", "-c", script, "list", box->home, NULL};
	on_exit_call(cove_output_free) struct cove_output output = {0};
	struct cove_command command = {.argv = words, .cwd = "/"};
	struct str rest, line, part[3];

	TRY(provider_run_exec(box, &command, &output));
	rest = (struct str){output.out, output.out_len};
	while (rest.len && str_cut(&rest, '\n', &line)) {
		struct cove_process_info info = {.status = "running"};
		auto_free char *id = NULL, *began = NULL, *ended = NULL;
		uint64_t code = 0;

		if (!str_cut(&line, ' ', &part[0]) || !str_cut(&line, ' ', &part[1]) ||
		    !str_cut(&line, ' ', &part[2]))
			continue;
		id = mem_dup(part[0].at, part[0].len);
		began = mem_dup(part[1].at, part[1].len);
		ended = mem_dup(part[2].at, part[2].len);
		info.id = id;
		info.start_time = began;
		info.ended = str_to_u64(line, 0, 255, &code);
		info.exit_code = (int)code;
		info.end_time = info.ended ? ended : "";
		if (info.ended)
			info.status = code ? "failed" : "completed";
		each(arg, &info);
	}
	return OK;
}
