// A sandbox, live: a process of its own whose log and port are waited for, a directory that is
// watched, and a terminal that is written to and read.
//
//	cc live.c $(pkg-config --cflags --libs libcove) -o live && ./live
#include <cove.h>
#include <stdio.h>
#include <string.h>

static struct cove_error error;

static int complain(const char *what)
{
	fprintf(stderr, "cannot %s: %s (%s)\n", what, error.message, cove_kind_word(error.kind));
	return 1;
}

// A web server, until it says that it serves and its port answers.
static int serve(struct cove_box *box)
{
	static const char *const argv[] = {"python3", "-u", "-m", "http.server", "8000", NULL};
	struct cove_process_options options = COVE_ZERO;
	struct cove_port_wait wait = COVE_ZERO;
	struct cove_process *process = NULL;
	struct cove_result result = COVE_ZERO;
	char *line = NULL;
	int failed = 0;

	options.command.argv = argv;
	if (cove_process_start(box, &options, &process, &error))
		return complain("start a server");
	wait.port = 8000;
	wait.path = "/";
	wait.timeout_ms = 20000;
	if (cove_process_wait_log(process, "Serving HTTP on .* port [0-9]+", 20000, &line, &error))
		failed = complain("see its log");
	else if (cove_port_ready(box, &wait, process, &error))
		failed = complain("reach its port");
	if (line)
		printf("log: %s\n", line);
	cove_free(line);
	if (!failed && (cove_process_kill(process, &error) ||
			cove_process_wait(process, 10000, &result, &error)))
		failed = complain("end it");
	if (!failed)
		printf("server ended with %d\n", result.exit_code);
	cove_process_free(process);
	return failed;
}

// Something changes, and we are told.
static int look(struct cove_box *box)
{
	struct cove_watch_options options = COVE_ZERO;
	struct cove_watch_event event = COVE_ZERO;
	struct cove_watch *watch = NULL;
	int failed = 0;

	options.path = "/workspace";
	if (cove_watch_open(box, &options, &watch, &error))
		return complain("watch");
	if (cove_write_file(box, "/workspace/news.txt", "news\n", 5, &error))
		failed = complain("write a file");
	while (!failed && !strstr(event.path ? event.path : "", "news.txt"))
		if (cove_watch_next(watch, 10000, &event, &error))
			failed = complain("hear of it");
	if (!failed)
		printf("watch: %s %s\n", event.type, event.path);
	cove_watch_close(watch);
	return failed;
}

static int talk(struct cove_box *box)
{
	static const char script[] = "stty -echo; PS1=; echo on $(tty); exit 3\n";
	struct cove_terminal_options options = COVE_ZERO;
	struct cove_terminal *terminal = NULL;
	char room[1024];
	size_t len = 1;
	int code = -1, failed = 0;

	options.cols = 100;
	options.rows = 30;
	if (cove_terminal_open(box, &options, &terminal, &error))
		return complain("open a terminal");
	if (cove_terminal_write(terminal, script, sizeof(script) - 1, &error))
		failed = complain("type");
	while (!failed && len > 0) {
		if (cove_terminal_read(terminal, room, sizeof(room), 10000, &len, &error))
			failed = complain("read the terminal");
		else
			fwrite(room, 1, len, stdout);
	}
	if (!failed && cove_terminal_ended(terminal, &code))
		printf("terminal ended with %d\n", code);
	cove_terminal_close(terminal);
	return failed || code != 3;
}

int main(void)
{
	struct cove *cove = NULL;
	struct cove_box *box = NULL;
	int failed;

	if (cove_open(NULL, &cove, &error))
		return complain("find cove");
	if (cove_box_create(cove, NULL, &box, &error)) {
		failed = complain("make a sandbox");
	} else {
		failed = serve(box) || look(box) || talk(box);
		if (cove_box_delete(box, &error))
			failed = complain("remove it");
	}
	cove_box_free(box);
	cove_close(cove);
	return failed;
}
