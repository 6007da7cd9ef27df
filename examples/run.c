// Runs one command in a sandbox of its own and hands its output and status on.
//
//	cc run.c $(pkg-config --cflags --libs libcove) -o run
//	./run python3 -c 'print(6 * 7)'
#include <cove.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static struct cove *cove;

static void on_signal(int number)
{
	(void)number;
	cove_cancel(cove); // safe in a handler: the call that waits ends
}

static int on_output(void *arg, const void *bytes, size_t len)
{
	return fwrite(bytes, 1, len, (FILE *)arg) == len ? 0 : -1; // not 0: enough of it
}

static int on_stdout(void *arg, const void *bytes, size_t len)
{
	(void)arg;
	return on_output(stdout, bytes, len);
}

static int on_stderr(void *arg, const void *bytes, size_t len)
{
	(void)arg;
	return on_output(stderr, bytes, len);
}

static int complain(const struct cove_error *error)
{
	fprintf(stderr, "%s: %s\n", cove_kind_word(error->kind), error->message);
	if (error->hint[0])
		fprintf(stderr, "hint: %s\n", error->hint);
	return 125;
}

static int run(struct cove_box *box, const char *const *argv)
{
	struct cove_exec_options options = COVE_ZERO;
	struct cove_result result = COVE_ZERO;
	struct cove_error error = COVE_ZERO;

	options.command.argv = argv;
	options.command.timeout_ms = 60000;
	options.sink.on_stdout = on_stdout;
	options.sink.on_stderr = on_stderr;
	if (cove_exec(box, &options, &result, &error))
		return complain(&error);
	if (strcmp(result.ended, "exited") != 0)
		fprintf(stderr, "it ended by: %s\n", result.ended);
	return result.exit_code;
}

int main(int argc, char **argv)
{
	struct cove_box_spec spec = COVE_ZERO;
	struct cove_error error = COVE_ZERO;
	struct cove_box *box = NULL;
	int status;

	if (argc < 2) {
		fprintf(stderr, "usage: %s COMMAND [ARG...]\n", argv[0]);
		return 2;
	}
	if (cove_open(NULL, &cove, &error))
		return complain(&error);
	spec.memory_mb = 256;
	if (cove_box_create(cove, &spec, &box, &error)) {
		status = complain(&error);
	} else {
		signal(SIGINT, on_signal);
		status = run(box, (const char *const *)(argv + 1));
		signal(SIGINT, SIG_DFL);
		if (cove_box_delete(box, &error))
			complain(&error);
	}
	cove_box_free(box);
	cove_close(cove);
	return status;
}
