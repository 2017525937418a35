/** Modules of pi's own packages, which come from the supply when they are imported: what is taken of them is checked when they are compiled. */
declare module "@earendil-works/*";
