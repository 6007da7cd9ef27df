// Sets the theme before the first paint. A preference is the only thing that is kept for good.
const wanted = localStorage.getItem('cove.theme');
const dark = wanted === 'dark' || (wanted !== 'light' && matchMedia('(prefers-color-scheme: dark)').matches);
document.documentElement.dataset['theme'] = dark ? 'dark' : 'light';
