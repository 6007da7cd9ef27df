// Pieces of powers of two, cut from regions that are never given back. A freed piece is wiped and
// kept for the next of its size. Regions are excluded from core files (MADV_DONTDUMP), which
// debuggers respect, too; they are not locked: swap is the operator's (`cove doctor`).
//
// syscalls: mmap madvise
#include "base/secret_text.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/weak.h"

#define REGION ((size_t)256 * 1024)
#define LEAST 6	   // 64 bytes
#define CLASSES 10 // to 32 KiB

struct piece {
	struct piece *next; // while it is free
	size_t class;
	char at[];
};

static struct {
	pthread_mutex_t lock;
	struct piece *free[CLASSES];
	char *region;
	size_t left;
} texts = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void secret_text_make_region(void)
{
	char *region = mmap(NULL, REGION, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			    0);

	if (region == MAP_FAILED)
		abort(); // as malloc() here
	if (!weak(SECRET_DUMPS) && madvise(region, REGION, MADV_DONTDUMP))
		abort(); // a value must not get into dumps
	texts.region = region;
	texts.left = REGION;
}

static struct piece *secret_text_take(size_t class)
{
	size_t size = (size_t)1 << (LEAST + class);
	struct piece *piece = texts.free[class];

	if (piece) {
		texts.free[class] = piece->next;
		return piece;
	}
	if (texts.left < size)
		secret_text_make_region(); // what is left of the old one is lost
	piece = (struct piece *)(texts.region + REGION - texts.left);
	texts.left -= size;
	piece->class = class;
	return piece;
}

char *secret_text_new(const void *bytes, size_t len)
{
	struct piece *piece;
	size_t class = 0;

	if (len > SECRET_TEXT_MAX - 1)
		abort();
	while (((size_t)1 << (LEAST + class)) < sizeof(*piece) + len + 1)
		class ++;
	pthread_mutex_lock(&texts.lock);
	piece = secret_text_take(class);
	pthread_mutex_unlock(&texts.lock);
	memcpy(piece->at, bytes, len);
	piece->at[len] = '\0';
	return piece->at;
}

void secret_text_free(char *text)
{
	struct piece *piece;

	if (!text)
		return;
	piece = (struct piece *)(text - offsetof(struct piece, at));
	explicit_bzero(piece->at, ((size_t)1 << (LEAST + piece->class)) - sizeof(*piece));
	pthread_mutex_lock(&texts.lock);
	piece->next = texts.free[piece->class];
	texts.free[piece->class] = piece;
	pthread_mutex_unlock(&texts.lock);
}
