// Loaded into qemu on processors whose instruction cache seems to have lines of a whole page: Linux
// says so to programs on a Neoverse N1, to mend an erratum (1542419). qemu would begin each
// translated block on a page of its own, fill its buffer with a few of them, and start over all
// day, nearly twice as slow. What it flushes it takes from the processor's own word, which stays as
// it is.
#include <dlfcn.h>
#include <unistd.h>

// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): the library's is reserved
long sysconf(int name)
{
	static long (*libc)(int);

	if (name == _SC_LEVEL1_ICACHE_LINESIZE)
		return 64;
	if (!libc)
		libc = (long (*)(int))dlsym(RTLD_NEXT, "sysconf");
	return libc(name);
}
