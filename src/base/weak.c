// Weak builds only: reads COVE_WEAKEN and maps its switch file. A word that names no defence ends
// the process, so that a test cannot pass by a typo.
#include "base/weak.h"

#ifdef COVE_WEAK

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"

static const struct {
	const char *word, *what;
} defences[] = {
#define X(name, word, what) {word, what},
	WEAK_DEFENCES(X)
#undef X
};

static bool named[WEAK_COUNT];
static const char *switches; // shared with the writer of that file

bool weak_is(enum weak defence)
{
	return named[defence] || (switches && switches[defence] == '1');
}

static _Noreturn void refuse(struct str word)
{
	fprintf(stderr, "cove: COVE_WEAKEN: there is no defence '" STR_FMT "', only:\n",
		STR_ARG(word));
	for (int i = 0; i < WEAK_COUNT; i++)
		fprintf(stderr, "  %-14s %s\n", defences[i].word, defences[i].what);
	exit(2);
}

static void share(struct str name)
{
	char path[1024];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), STR_FMT, STR_ARG(name));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) || st.st_size != WEAK_COUNT) {
		fprintf(stderr, "cove: COVE_WEAKEN: %s does not have %d switches\n", path,
			WEAK_COUNT);
		exit(2);
	}
	switches = mmap(NULL, WEAK_COUNT, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (switches == MAP_FAILED)
		abort();
}

static void name(struct str word)
{
	for (int i = 0; i < WEAK_COUNT; i++)
		if (str_is(word, defences[i].word)) {
			named[i] = true;
			return;
		}
	refuse(word);
}

void weak_open(void)
{
	const char *text = getenv("COVE_WEAKEN");
	struct str rest = str_of(text ? text : ""), word;

	while (rest.len && str_cut(&rest, ',', &word)) {
		if (str_starts(word, "@"))
			share(str_skip(word, 1));
		else
			name(word);
	}
}

const char *weak_note(void)
{
	static char note[16 + 16 * WEAK_COUNT]; // no word is longer
	int len = snprintf(note, sizeof(note), "COVE_WEAKEN=");

	for (int i = 0; i < WEAK_COUNT; i++)
		if (weak_is(i))
			len += snprintf(note + len, sizeof(note) - (size_t)len, "%s,",
					defences[i].word);
	return note;
}

#endif
